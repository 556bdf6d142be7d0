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
    const clock = new Intl.DateTimeFormat(language, {timeStyle: "short"});
    const day = new Intl.DateTimeFormat(language, {month: "numeric", day: "numeric"});
    const moment = new Intl.DateTimeFormat(language, {dateStyle: "medium", timeStyle: "short"});
    const DAY_S = 86400;
    let plots = [];
    let asked = 0;

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

    const numbersOf = (_plot, splits) => splits.map((each) => number.format(each));
    const legendOf = (format) => (_plot, value) => (value === null || value === undefined ? "–" : format(value));

    function draw(id, times, series) {
        const place = document.getElementById(id);
        const text = color("--body-fg", getComputedStyle(root).color);
        const grid = {stroke: color("--hairline-color", "rgb(128 128 128 / .3)"), width: 1};
        const axis = {stroke: text, grid, ticks: grid};
        const plot = new uPlot({
            width: Math.max(place.clientWidth, 240),
            height: 220,
            series: [{label: words.time, value: legendOf((each) => moment.format(each * 1000))}, ...series.map((each) => ({
                label: each.label, stroke: each.color, width: 2, spanGaps: false, value: legendOf(number.format),
                points: {show: true, size: 4},
            }))],
            axes: [{...axis, values: timesOf}, {...axis, size: 60, values: numbersOf}],
            scales: {y: {range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)]}},
        }, [times, ...series.map((each) => each.values)], place);
        plots.push(plot);
    }

    function cell(row, text, isNumber) {
        const made = document.createElement("td");
        made.textContent = text === null ? "–" : isNumber ? number.format(text) : String(text);
        if (isNumber) {
            made.className = "mcp-number";
        }
        row.append(made);
    }

    function fill(names) {
        const body = root.querySelector("#mcp-names tbody");
        body.replaceChildren(...names.map((each) => {
            const row = document.createElement("tr");
            cell(row, each.name);
            cell(row, each.method);
            cell(row, each.server);
            for (const key of ["calls", "errors", "p50", "p95", "p99"]) {
                cell(row, each[key], true);
            }
            return row;
        }));
        const chosen = name.value;
        const known = [...new Set(names.map((each) => each.name))].sort();
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
        plots.forEach((plot) => plot.destroy());
        plots = [];
        const usual = color("--link-fg", "#2e86ab");
        const bad = color("--error-fg", "#dc3545");
        draw("mcp-counts", data.times, [
            {label: words.calls, values: data.calls, color: usual},
            {label: words.errors, values: data.errors, color: bad},
        ]);
        draw("mcp-times", data.times, [
            {label: words.median, values: data.p50, color: usual},
            {label: words.slow, values: data.p95, color: bad},
        ]);
        fill(data.names);
        const total = data.calls.reduce((sum, each) => sum + each, 0);
        status.textContent = total ? "" : words.none;
        root.dataset.total = String(total);
    }

    span.addEventListener("change", load);
    name.addEventListener("change", load);
    addEventListener("resize", () => plots.forEach((plot) => {
        plot.setSize({width: Math.max(plot.root.parentElement.clientWidth, 240), height: 220});
    }));
    setInterval(() => document.hidden || load(), REFRESH_MS);
    load();
})();
