// Keeps a part of a page up to date: reads the page again every few seconds, and puts the part in its place.
"use strict";
(() => {
    for (const part of document.querySelectorAll("[data-refresh]")) {
        const pause = document.querySelector(`.mcp-pause[data-of="${part.id}"]`);
        let isPaused = false;

        async function refresh() {
            // Whoever is there with the keyboard keeps what they are at.
            if (isPaused || document.hidden || part.contains(document.activeElement)) {
                return;
            }
            try {
                const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
                const read = new DOMParser().parseFromString(await answer.text(), "text/html");
                const newer = answer.ok && read.getElementById(part.id);
                if (newer && !isPaused && !part.contains(document.activeElement)) {
                    part.replaceChildren(...newer.childNodes);
                }
                part.classList.toggle("mcp-off", !newer);
            } catch {
                part.classList.add("mcp-off");
            }
        }

        pause.hidden = false;
        pause.addEventListener("click", () => {
            isPaused = !isPaused;
            pause.setAttribute("aria-pressed", String(isPaused));
            refresh();
        });
        setInterval(refresh, Number(part.dataset.refresh) * 1000);
    }
})();
