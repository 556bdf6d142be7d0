// Keeps the tables of what is connected up to date: by a feed, or by asking where there is none.
// Rows are kept by their id, so that a focused button stays where it is.
"use strict";
(() => {
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const status = document.getElementById("mcp-live-status");
    const logForm = document.getElementById("mcp-log");
    const POLL_MS = 3000;
    const TIMES = new Set(["since", "seen"]);
    let polling = null;
    let addressee = null;

    function ago(then, now) {
        const passed = Math.max(0, now - then);
        const [amount, unit] = passed < 90 ? [passed, "second"] : passed < 5400 ? [passed / 60, "minute"]
            : passed < 129600 ? [passed / 3600, "hour"] : [passed / 86400, "day"];
        return new Intl.RelativeTimeFormat(document.documentElement.lang || undefined, {numeric: "always"})
            .format(-Math.round(amount), unit);
    }

    function shown(row, column, now) {
        if (TIMES.has(column)) {
            return ago(row[column], now);
        }
        return column === "name" && row.is_alive === false ? `${row.name} (${words.gone})` : String(row[column] ?? "");
    }

    async function act(name, id, text) {
        const body = new URLSearchParams({act: name, id, text: text ?? ""});
        const token = root.querySelector("[name=csrfmiddlewaretoken]").value;
        try {
            const answer = await fetch(words.act, {method: "POST", body, headers: {"X-CSRFToken": token}});
            const told = answer.headers.get("Content-Type")?.includes("json") ? await answer.json() : {};
            status.className = answer.ok ? "" : "errornote";
            status.textContent = told.done ?? told.error ?? words.failed;
        } catch {
            status.className = "errornote";
            status.textContent = words.failed;
        }
        ask();
    }

    function makeButton(name, row) {
        const made = document.createElement("button");
        const hidden = document.createElement("span");
        made.type = "button";
        made.className = "button";
        made.textContent = words[name];
        hidden.className = "visually-hidden";
        hidden.textContent = ` ${row.client ?? ""}`;
        made.append(hidden);
        made.addEventListener("click", () => {
            if (name === "log") {
                addressee = row.id;
                logForm.hidden = false;
                logForm.querySelector("input").focus();
            } else if (name === "ping" || made.dataset.asked) {
                act(name, row.id);
            } else {
                made.dataset.asked = "1";
                made.firstChild.textContent = words.sure;
                setTimeout(() => {
                    delete made.dataset.asked;
                    made.firstChild.textContent = words[name];
                }, 4000);
            }
        });
        return made;
    }

    function makeRow(row, columns, acts) {
        const made = document.createElement("tr");
        made.dataset.id = row.id;
        made.append(...columns.map(() => document.createElement("td")));
        if (acts.length) {
            const cell = document.createElement("td");
            cell.className = "mcp-state";
            cell.append(...acts.map((name) => makeButton(name, row)));
            made.append(cell);
        }
        return made;
    }

    function draw(table, rows, count, now) {
        const columns = table.dataset.columns.split(" ");
        const acts = table.dataset.acts.split(" ").filter(Boolean);
        const body = table.tBodies[0];
        const known = new Map([...body.rows].map((each) => [each.dataset.id, each]));
        let before = body.firstElementChild;
        for (const row of rows) {
            const made = known.get(row.id) ?? makeRow(row, columns, acts);
            known.delete(row.id);
            columns.forEach((column, at) => {
                const text = shown(row, column, now);
                if (made.cells[at].textContent !== text) {
                    made.cells[at].textContent = text;
                }
            });
            if (made === before) {
                before = before.nextElementSibling;
            } else {
                body.insertBefore(made, before);
            }
        }
        known.forEach((row) => row.remove());
        table.querySelector(".mcp-count").textContent = count > rows.length ? `(${words.more} ${count})` : `(${rows.length})`;
    }

    function take(data) {
        for (const table of root.querySelectorAll("table")) {
            const name = table.id.slice("mcp-".length);
            draw(table, data[name], data.counts[name] ?? data[name].length, data.at);
        }
        root.dataset.at = String(data.at);
    }

    async function ask() {
        try {
            const answer = await fetch(words.url, {headers: {Accept: "application/json"}});
            if (!answer.ok) {
                throw new Error(String(answer.status));
            }
            take(await answer.json());
        } catch {
            status.className = "errornote";
            status.textContent = words.lost;
        }
    }

    function poll() {
        polling ??= setInterval(() => document.hidden || ask(), POLL_MS);
        ask();
    }

    function follow() {
        if (!window.EventSource) {
            poll();
            return;
        }
        const feed = new EventSource(words.feed);
        feed.addEventListener("message", (event) => take(JSON.parse(event.data)));
        feed.addEventListener("error", () => {
            // It connects again by itself, unless it was told that there is no feed.
            if (feed.readyState === EventSource.CLOSED) {
                poll();
            }
        });
        addEventListener("pagehide", () => feed.close());
    }

    logForm.addEventListener("submit", (event) => {
        event.preventDefault();
        const field = logForm.querySelector("input");
        act("log", addressee, field.value);
        field.value = "";
        logForm.hidden = true;
    });
    document.getElementById("mcp-log-cancel").addEventListener("click", () => {
        logForm.hidden = true;
    });
    follow();
})();
