// Keeps the tables of what is connected up to date: by a feed, or by asking where there is none.
// Rows are kept by their id, so that a focused button stays where it is.
"use strict";
(() => {
    const {makeButtons} = window.mcpActs;
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const status = document.getElementById("mcp-live-status");
    // A place of its own: what an action told stays.
    const connection = document.getElementById("mcp-live-connection");
    const POLL_MS = 3000;
    // It is heard of every two seconds, and ends every minute to come again.
    const SILENT_MS = 8000;
    // What stands in between may hold the feed back for good, and each try costs the site its looks.
    const AGAIN_MS = 30000;
    // Rows of a table without a count: as many as the site sends, there may be more.
    const MAX_ROWS = 200;
    const TIMES = new Set(["since", "seen"]);
    const number = new Intl.NumberFormat(document.documentElement.lang || undefined);
    let polling = null;
    let feed = null;

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

    function makeRow(row, columns, acts) {
        const made = document.createElement("tr");
        made.dataset.id = row.id;
        made.append(...columns.map(() => document.createElement("td")));
        if (acts.length) {
            const cell = document.createElement("td");
            cell.className = "mcp-state";
            if (row.may_end !== false) {
                cell.append(...makeButtons(acts, row));
            }
            made.append(cell);
        }
        return made;
    }

    function draw(table, rows, count, now) {
        const columns = table.dataset.columns.split(" ");
        const acts = table.dataset.acts.split(" ").filter(Boolean);
        const body = table.tBodies[0];
        const focused = body.contains(document.activeElement) ? document.activeElement : null;
        const there = new Set(rows.map((each) => each.id));
        [...body.rows].filter((each) => !there.has(each.dataset.id)).forEach((each) => each.remove());
        const known = new Map([...body.rows].map((each) => [each.dataset.id, each]));
        let before = body.firstElementChild;
        for (const row of rows) {
            const made = known.get(row.id) ?? makeRow(row, columns, acts);
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
        if (focused && focused !== document.activeElement) {
            // A row that has moved or is gone lost it.
            (focused.isConnected ? focused : status).focus({preventScroll: true});
        }
        table.querySelector(".mcp-count").textContent = counted(rows.length, count);
    }

    function counted(shown, count) {
        if (count === undefined && shown >= MAX_ROWS) {
            return `(${number.format(shown)} ${words.atLeast})`;
        }
        return count > shown ? `(${words.more} ${number.format(count)})` : `(${number.format(shown)})`;
    }

    function drawSubscriptions(data) {
        const {subscriptions} = data.counts;
        const place = document.getElementById("mcp-subscriptions");
        if (subscriptions !== undefined) {
            place.hidden = false;
            place.querySelector(".mcp-count").textContent = `(${number.format(subscriptions)})`;
        }
    }

    function take(data) {
        setLost(false);
        for (const table of root.querySelectorAll("table")) {
            const name = table.id.slice("mcp-".length);
            draw(table, data[name], data.counts[name], data.at);
        }
        drawSubscriptions(data);
        root.dataset.at = String(data.at);
    }

    function setLost(isLost) {
        const text = isLost ? words.lost : "";
        // Set once, or it would be read out again and again.
        if (connection.textContent !== text) {
            connection.className = isLost ? "errornote" : "";
            connection.textContent = text;
        }
    }

    async function ask() {
        try {
            const answer = await fetch(words.url, {
                headers: {Accept: "application/json"}, signal: AbortSignal.timeout(SILENT_MS),
            });
            if (!answer.ok) {
                throw new Error(String(answer.status));
            }
            take(await answer.json());
        } catch {
            setLost(true);
        }
    }

    function poll() {
        if (polling === null) {
            polling = setInterval(() => document.hidden || ask(), POLL_MS);
            ask();
        }
    }

    function stopPolling() {
        clearInterval(polling);
        polling = null;
    }

    function follow() {
        if (!window.EventSource) {
            poll();
            return;
        }
        let last = null;
        let silence = null;
        let isHeard = false;
        const followed = feed = new EventSource(words.feed);
        const wait = () => {
            clearTimeout(silence);
            silence = setTimeout(() => {
                // A connection can hang without an error.
                followed.close();
                poll();
                setTimeout(follow, AGAIN_MS);
            }, SILENT_MS);
        };
        const hear = () => {
            isHeard = true;
            stopPolling();
            wait();
        };
        followed.addEventListener("message", (event) => {
            hear();
            last = JSON.parse(event.data);
            take(last);
        });
        followed.addEventListener("same", (event) => {
            hear();
            // Only the time goes on.
            take({...last, at: JSON.parse(event.data)});
        });
        followed.addEventListener("error", () => {
            // It connects again by itself, unless it was told that there is no feed.
            if (followed.readyState === EventSource.CLOSED) {
                clearTimeout(silence);
                poll();
            } else if (!isHeard) {
                poll();
            }
            // After what was heard it is but the end of a feed, as there is one every minute.
            isHeard = false;
        });
        wait();
    }

    addEventListener("pagehide", () => feed?.close());
    root.addEventListener("acted", ask);
    follow();
})();
