// Draws the charts from the JSON that the site counts; all texts from it are set as text.
"use strict";
(() => {
    const root = document.getElementById("mcp-charts");
    const words = root.dataset;
    const span = document.getElementById("mcp-span");
    const name = document.getElementById("mcp-name");
    const status = document.getElementById("mcp-charts-status");
    const REFRESH_MS = 15000;
    let plots = [];
    let asked = 0;

    const color = (variable, fallback) =>
        getComputedStyle(document.documentElement).getPropertyValue(variable).trim() || fallback;

    function draw(id, times, series) {
        const place = document.getElementById(id);
        const text = color("--body-fg", "#333");
        const grid = {stroke: color("--hairline-color", "#ddd"), width: 1};
        const axis = {stroke: text, grid, ticks: grid};
        const plot = new uPlot({
            width: Math.max(place.clientWidth, 240),
            height: 220,
            series: [{label: words.time}, ...series.map((each) => ({
                label: each.label, stroke: each.color, width: 2, spanGaps: false,
                points: {show: true, size: 4},
            }))],
            axes: [axis, {...axis, size: 60}],
            scales: {y: {range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)]}},
        }, [times, ...series.map((each) => each.values)], place);
        plots.push(plot);
    }

    function cell(row, text, isNumber) {
        const made = document.createElement("td");
        made.textContent = text === null ? "–" : String(text);
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
        draw("mcp-counts", data.times, [
            {label: words.calls, values: data.calls, color: color("--link-fg", "#417893")},
            {label: words.errors, values: data.errors, color: color("--error-fg", "#ba2121")},
        ]);
        draw("mcp-times", data.times, [
            {label: words.median, values: data.p50, color: color("--link-fg", "#417893")},
            {label: words.slow, values: data.p95, color: color("--error-fg", "#ba2121")},
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
