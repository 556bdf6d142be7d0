// Shows what is connected in tables, and keeps them up to date.
// Rows are kept by their id, so that a focused button stays where it is.
"use strict";
(() => {
    const {makeButtons} = window.mcpActs;
    const {follow} = window.mcpFeed;
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const status = document.getElementById("mcp-live-status");
    // A place of its own: what an action told stays.
    const connection = document.getElementById("mcp-live-connection");
    const PER_PAGE = 25;
    const NAMES = new Set(["client", "user", "server", "worker", "name"]);
    const TIMES = new Set(["since", "seen"]);
    const number = new Intl.NumberFormat(document.documentElement.lang || undefined);
    const look = document.getElementById("mcp-look");
    const pause = document.getElementById("mcp-pause");
    const pages = {};
    // The rows of each table, as they were last heard of.
    const rowsOf = {};
    let isPaused = false;
    let isSignedOut = false;

    // What is asked for, as the query of a URL; without a choice there is none.
    function query() {
        const found = new URLSearchParams([
            ...[...new FormData(look)].filter(([, value]) => value),
            ...Object.entries(pages).filter(([, page]) => page > 1),
        ]).toString();
        return found && `?${found}`;
    }

    // The page's own URL has it, so that it can be reloaded, kept and sent to others.
    function readQuery() {
        for (const [name, value] of new URLSearchParams(location.search)) {
            const field = look.elements[name];
            if (field) {
                if (name === "worker" && value) {
                    field.append(new Option(value, value));
                }
                field.value = value;
            } else if (document.getElementById(`mcp-${name}`)?.tagName === "TABLE" && /^\d{1,6}$/.test(value)) {
                pages[name] = Math.max(1, Number(value));
            }
        }
    }

    function choose() {
        history.replaceState(null, "", location.pathname + query());
        source.restart();
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
            const passed = ago(row[column], now);
            return column === "seen" && row.is_quiet ? `${passed} (${words.quiet})` : passed;
        }
        if (typeof row[column] === "number") {
            return number.format(row[column]);
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
        made.append(...columns.map((column) => {
            const cell = document.createElement("td");
            cell.className = NAMES.has(column) ? "mcp-name" : "";
            return cell;
        }));
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
        if (chosen && !names.has(chosen)) {
            // It is still what is asked for.
            names.set(chosen, words.gone);
        }
        if (field.options.length !== names.size + 1 || [...field.options].slice(1).some((each) => names.get(each.value) !== each.text)) {
            field.replaceChildren(field.options[0], ...[...names].map(([id, name]) => new Option(name, id)));
            field.value = chosen;
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
            rowsOf[name] = data[name] ?? [];
            draw(table, rowsOf[name], data.counts[name], data.at);
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

    readQuery();
    const source = follow({
        addressOf: query,
        take,
        lose: () => setLost(true),
        refuse: () => {
            isSignedOut = true;
            setLost(true);
        },
    });
    root.addEventListener("acted", source.ask);
    look.addEventListener("submit", (event) => {
        event.preventDefault();
        Object.keys(pages).forEach((name) => delete pages[name]);
        choose();
    });
    for (const place of root.querySelectorAll(".mcp-pages")) {
        place.addEventListener("click", (event) => {
            const step = Number(event.target.closest("button")?.dataset.step ?? 0);
            if (step) {
                pages[place.dataset.pages] = Math.max(1, (pages[place.dataset.pages] ?? 1) + step);
                choose();
            }
        });
    }
    pause.addEventListener("click", () => {
        isPaused = !isPaused;
        pause.setAttribute("aria-pressed", String(isPaused));
        setLost(false);
        source.pause(isPaused);
    });
})();
