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
    const PER_PAGE = 25;
    const TIMES = new Set(["since", "seen"]);
    const number = new Intl.NumberFormat(document.documentElement.lang || undefined);
    const look = document.getElementById("mcp-look");
    const pause = document.getElementById("mcp-pause");
    const pages = {};
    // The rows of each table, as they were last heard of.
    const rowsOf = {};
    let polling = null;
    let feed = null;
    let silence = null;
    let again = null;
    let isPaused = false;
    let isSignedOut = false;

    // Without a choice there is no query.
    function addressOf(url) {
        const query = new URLSearchParams([
            ...[...new FormData(look)].filter(([, value]) => value),
            ...Object.entries(pages).filter(([, page]) => page > 1),
        ]).toString();
        return query ? `${url}?${query}` : url;
    }

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

    function fillCell(cell, row, column, link, text) {
        if (column === "client" && link) {
            const anchor = cell.firstElementChild ?? cell.appendChild(document.createElement("a"));
            anchor.href = link.replace("ID", row.id);
            anchor.textContent = text;
        } else {
            cell.textContent = text;
        }
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
                    fillCell(made.cells[at], row, column, table.dataset.link, text);
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
        const total = count ?? rows.length;
        table.querySelector(".mcp-count").textContent = `(${number.format(total)})`;
        root.querySelector(`[data-count="${table.id.slice("mcp-".length)}"]`).textContent = number.format(total);
        table.parentElement.querySelector(".mcp-empty").hidden = rows.length > 0;
        drawPages(table.parentElement.querySelector(".mcp-pages"), rows.length, total);
    }

    function drawPages(place, shown, total) {
        const page = pages[place.dataset.pages] ?? 1;
        const first = (page - 1) * PER_PAGE;
        const [previous, next] = place.querySelectorAll("button");
        place.hidden = page === 1 && total <= PER_PAGE;
        previous.disabled = page === 1;
        next.disabled = first + shown >= total;
        previous.nextElementSibling.textContent = `${number.format(shown ? first + 1 : 0)}–${number.format(first + shown)} ${words.of} ${number.format(total)}`;
    }

    function drawWorkers(workers) {
        const field = look.elements.worker;
        const chosen = field.value;
        const names = new Map(workers.filter((each) => each.is_alive !== false).map((each) => [each.id, each.name]));
        if (field.options.length !== names.size + 1 || [...field.options].slice(1).some((each) => !names.has(each.value))) {
            field.replaceChildren(field.options[0], ...[...names].map(([id, name]) => new Option(name, id)));
            field.value = names.has(chosen) ? chosen : "";
        }
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
            const part = data[name];
            if (Array.isArray(part)) {
                rowsOf[name] = part;
            } else if (part) {
                // Only what has changed.
                const known = new Map((rowsOf[name] ?? []).map((each) => [each.id, each]));
                part.rows.forEach((each) => known.set(each.id, {...known.get(each.id), ...each}));
                rowsOf[name] = part.order.map((id) => known.get(id));
            }
            draw(table, rowsOf[name] ?? [], data.counts[name], data.at);
        }
        drawWorkers(rowsOf.workers ?? []);
        drawSubscriptions(data);
        root.dataset.at = String(data.at);
    }

    function setLost(isLost) {
        const text = isSignedOut ? words.signedOut : isPaused ? words.paused : isLost ? words.lost : "";
        // Set once, or it would be read out again and again.
        if (connection.textContent !== text) {
            connection.className = text && !isPaused ? "errornote" : "";
            connection.textContent = text;
        }
    }

    async function ask() {
        try {
            const answer = await fetch(addressOf(words.url), {
                headers: {Accept: "application/json"}, signal: AbortSignal.timeout(SILENT_MS),
            });
            if (answer.redirected || answer.status === 403) {
                isSignedOut = true;
                stop();
            }
            if (!answer.ok || isSignedOut) {
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

    function stop() {
        feed?.close();
        clearTimeout(silence);
        clearTimeout(again);
        stopPolling();
    }

    // From the start, with another choice.
    function restart() {
        stop();
        if (!isPaused && !isSignedOut) {
            follow();
        }
    }

    function follow() {
        if (!window.EventSource) {
            poll();
            return;
        }
        let last = null;
        let isHeard = false;
        const followed = feed = new EventSource(addressOf(words.feed));
        const wait = () => {
            clearTimeout(silence);
            silence = setTimeout(() => {
                // A connection can hang without an error.
                followed.close();
                poll();
                again = setTimeout(follow, AGAIN_MS);
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
            take({counts: last.counts, at: JSON.parse(event.data)});
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
    look.addEventListener("submit", (event) => {
        event.preventDefault();
        Object.keys(pages).forEach((name) => delete pages[name]);
        restart();
        ask();
    });
    for (const place of root.querySelectorAll(".mcp-pages")) {
        place.addEventListener("click", (event) => {
            const step = Number(event.target.closest("button")?.dataset.step ?? 0);
            if (step) {
                pages[place.dataset.pages] = Math.max(1, (pages[place.dataset.pages] ?? 1) + step);
                restart();
                ask();
            }
        });
    }
    pause.addEventListener("click", () => {
        isPaused = !isPaused;
        pause.setAttribute("aria-pressed", String(isPaused));
        setLost(false);
        restart();
    });
    follow();
})();
