// Draws the charts from the JSON that the site counts; all texts from it are set as text.
"use strict";
(() => {
    const root = document.getElementById("mcp-charts");
    const words = root.dataset;
    const span = document.getElementById("mcp-span");
    const name = document.getElementById("mcp-name");
    const status = document.getElementById("mcp-charts-status");
    const REFRESH_MS = 15000;
    const language = document.documentElement.lang || undefined;
    const number = new Intl.NumberFormat(language);
    const minutes = new Intl.NumberFormat(language, {style: "unit", unit: "minute", unitDisplay: "long"});
    // A percentile is right to a step of 19 %, so more digits would say nothing.
    const rough = new Intl.NumberFormat(language, {maximumSignificantDigits: 2});
    const percent = new Intl.NumberFormat(language, {style: "percent", maximumFractionDigits: 1});
    const timeZone = words.zone;
    const clock = new Intl.DateTimeFormat(language, {timeZone, timeStyle: "short"});
    const day = new Intl.DateTimeFormat(language, {timeZone, month: "numeric", day: "numeric"});
    const moment = new Intl.DateTimeFormat(language, {timeZone, dateStyle: "medium", timeStyle: "short"});
    const DAY_S = 86400;
    const chosen = new URLSearchParams(location.search);
    let plots = [];
    let asked = 0;
    let shown = null;

    function listOf(query) {
        return `${words.list}?${new URLSearchParams(query)}`;
    }

    // The calls of one point, or from it on.
    function boundsOf(at, isAll) {
        const bounds = shown.bounds;
        return {
            started_at__gte: bounds[at],
            ...(isAll ? {} : {started_at__lt: bounds[at + 1]}),
            ...(name.value ? {name: name.value} : {}),
        };
    }

    // Django's colours; a theme without them has at least a colour of texts, and the others stand out
    // in light as in dark.
    const color = (variable, fallback) => getComputedStyle(root).getPropertyValue(variable).trim() || fallback;

    // The day stands below the first time, and where another one begins.
    function timesOf(_plot, splits, _axis, _space, step) {
        let last = "";
        return splits.map((each) => {
            const today = day.format(each * 1000);
            const isSame = today === last;
            last = today;
            return step >= DAY_S ? today : clock.format(each * 1000) + (isSame ? "" : `\n${today}`);
        });
    }

    const numbersOf = (_plot, splits) => splits.map((each) => (each === null ? "" : number.format(each)));
    const legendOf = (format) => (_plot, value) => (value === null || value === undefined ? "–" : format(value));

    // The last point counts less than its whole width.
    function shadeLast(plot) {
        const {ctx, bbox, data: [times]} = plot;
        const left = plot.valToPos(times.at(-2) ?? times.at(-1), "x", true);
        ctx.save();
        ctx.globalAlpha = 0.12;
        ctx.fillStyle = getComputedStyle(root).color;
        ctx.fillRect(left, bbox.top, bbox.left + bbox.width - left, bbox.height);
        ctx.restore();
    }

    function draw(id, times, series, isLog) {
        const place = document.getElementById(id);
        const text = color("--body-fg", getComputedStyle(root).color);
        const grid = {stroke: color("--hairline-color", "rgb(128 128 128 / .3)"), width: 1};
        const axis = {stroke: text, grid, ticks: grid};
        const plot = new uPlot({
            width: Math.max(place.clientWidth, 240),
            height: 220,
            series: [{label: words.time, value: legendOf((each) => moment.format(each * 1000))}, ...series.map((each) => ({
                label: each.label, stroke: each.color, width: 2, spanGaps: false, dash: each.dash,
                value: legendOf((isLog ? rough : number).format),
                points: {show: true, size: 4},
            }))],
            axes: [{...axis, values: timesOf}, {...axis, size: 60, values: numbersOf}],
            tzDate: (time) => uPlot.tzDate(new Date(time * 1000), timeZone),
            hooks: {drawClear: [shadeLast]},
            scales: {y: isLog ? {distr: 3} : {range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)]}},
        }, [times, ...series.map((each) => each.values)], place);
        plot.over.title = words.show;
        plot.over.addEventListener("click", () => {
            if (plot.cursor.idx !== null && shown.bounds) {
                location.assign(listOf(boundsOf(plot.cursor.idx)));
            }
        });
        plots.push(plot);
    }

    function cell(row, text, format, query) {
        const made = document.createElement("td");
        const place = query ? document.createElement("a") : made;
        place.textContent = text === null ? "–" : format ? format.format(text) : String(text);
        if (query) {
            place.href = listOf(query);
            made.append(place);
        }
        if (format) {
            made.className = "mcp-number";
        }
        row.append(made);
    }

    function numbers(row, each, query) {
        cell(row, each.calls, number, query);
        cell(row, each.errors, number, each.errors ? {...query, outcome__in: words.failures} : null);
        cell(row, each.calls ? each.errors / each.calls : null, percent);
    }

    function fillPoints(data) {
        const rows = data.times.map((time, at) => {
            const row = document.createElement("tr");
            const point = Object.fromEntries(["calls", "errors", "p50", "p95"].map((key) => [key, data[key][at]]));
            const isLast = at === data.times.length - 1;
            cell(row, moment.format(time * 1000) + (isLast ? ` (${words.soFar})` : ""));
            numbers(row, point, boundsOf(at));
            cell(row, point.p50, rough);
            cell(row, point.p95, rough);
            return point.calls ? row : null;
        });
        root.querySelector("#mcp-points tbody").replaceChildren(...rows.filter(Boolean).reverse());
    }

    function fill(names) {
        const body = root.querySelector("#mcp-names tbody");
        body.replaceChildren(...names.map((each) => {
            const row = document.createElement("tr");
            // What has no name is what clients made up.
            cell(row, each.label ?? each.name);
            cell(row, each.method);
            cell(row, each.server);
            const same = each.name ? {name: each.name, server: each.server} : {outcome: "refused"};
            numbers(row, each, {...boundsOf(0, true), ...same});
            for (const key of ["p50", "p95", "p99"]) {
                cell(row, each[key], rough);
            }
            return row;
        }));
        const chosen = name.value;
        const known = [...new Set(names.map((each) => each.name).filter(Boolean))].sort();
        name.replaceChildren(new Option(words.all, ""), ...known.map((each) => new Option(each, each)));
        if (chosen && !known.includes(chosen)) {
            name.append(new Option(chosen, chosen));
        }
        name.value = chosen;
    }

    async function load() {
        const turn = ++asked;
        const query = new URLSearchParams({span: span.value, name: name.value});
        let data;
        try {
            const answer = await fetch(`${words.url}?${query}`, {headers: {Accept: "application/json"}});
            if (!answer.ok) {
                throw new Error(String(answer.status));
            }
            data = await answer.json();
        } catch {
            status.textContent = words.failed;
            return;
        }
        if (turn !== asked) {
            return;
        }
        shown = {bounds: data.times, ...data};
        document.getElementById("mcp-charts-width").textContent = words.width.replace("{0}", minutes.format(data.minutes));
        plots.forEach((plot) => plot.destroy());
        plots = [];
        const usual = color("--link-fg", "#2e86ab");
        const bad = color("--error-fg", "#dc3545");
        draw("mcp-counts", data.times, [
            {label: words.calls, values: data.calls, color: usual},
            {label: words.errors, values: data.errors, color: bad, dash: [6, 4]},
        ]);
        draw("mcp-times", data.times, [
            {label: words.median, values: data.p50, color: usual},
            {label: words.slow, values: data.p95, color: bad, dash: [6, 4]},
        ], true);
        fill(data.names);
        fillPoints(data);
        const total = data.calls.reduce((sum, each) => sum + each, 0);
        status.textContent = total ? "" : words.none;
        root.dataset.total = String(total);
    }

    function choose() {
        history.replaceState(null, "", `?${new URLSearchParams({span: span.value, name: name.value})}`);
        load();
    }

    if ([...span.options].some((each) => each.value === chosen.get("span"))) {
        span.value = chosen.get("span");
    }
    if (chosen.get("name")) {
        name.append(new Option(chosen.get("name"), chosen.get("name"), true, true));
    }
    span.addEventListener("change", choose);
    name.addEventListener("change", choose);
    addEventListener("resize", () => plots.forEach((plot) => {
        plot.setSize({width: Math.max(plot.root.parentElement.clientWidth, 240), height: 220});
    }));
    setInterval(() => document.hidden || load(), REFRESH_MS);
    load();
})();
