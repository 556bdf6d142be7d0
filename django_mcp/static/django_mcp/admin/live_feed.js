// Brings the data of the live page: by a feed, or by asking where there is none.
//
// A browser has six connections to a site, and a feed takes one for good. So the visible tabs elect one of them, by
// a lock of the browser, whose feed tells the tabs that show the same; those that show something else ask. A hidden
// tab does nothing. Where a browser has no locks, as on pages that came over plain HTTP, each visible tab has a feed.
"use strict";
(() => {
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const POLL_MS = 3000;
    // It is heard of every two seconds, and ends every minute to come again.
    const SILENT_MS = 8000;
    // What stands in between may hold the feed back for good, and each try costs the site its looks.
    const AGAIN_MS = 30000;
    const NAME = "django_mcp.live";

    // Only what has changed comes, for each table.
    function merge(known, part) {
        if (!part || Array.isArray(part)) {
            return part ?? known;
        }
        const rows = new Map((known ?? []).map((each) => [each.id, each]));
        part.rows.forEach((each) => rows.set(each.id, {...rows.get(each.id), ...each}));
        return part.order.map((id) => rows.get(id));
    }

    function mergeAll(known, data) {
        const tables = Object.keys({...known, ...data}).filter((name) => name !== "at" && name !== "counts");
        return {
            at: data.at, counts: data.counts,
            ...Object.fromEntries(tables.map((name) => [name, merge(known[name], data[name])])),
        };
    }

    // `addressOf` returns what is asked for, as the query of a URL; `take` gets all that is shown of it; `lose` is
    // called when nothing comes, and `refuse` when nothing will.
    function follow({addressOf, take, lose, refuse}) {
        let isPaused = false;
        let isRefused = false;
        // What belongs to this round of following, to end all of it at once.
        let round = null;
        let polling = null;
        let silence = null;
        let again = null;
        let feed = null;
        const channel = window.BroadcastChannel && navigator.locks ? new BroadcastChannel(NAME) : null;
        // What another user or language of this browser sees is not for this tab.
        const keyOf = () => [words.viewer, document.documentElement.lang, words.feed, addressOf()].join("|");

        async function ask() {
            const mine = round;
            try {
                const answer = await fetch(words.url + addressOf(), {
                    headers: {Accept: "application/json"}, signal: AbortSignal.timeout(SILENT_MS),
                });
                if (answer.redirected || answer.status === 403) {
                    isRefused = true;
                    stop();
                    refuse();
                    return;
                }
                if (!answer.ok) {
                    throw new Error(String(answer.status));
                }
                const data = await answer.json();
                if (mine === round) {
                    take(data);
                }
            } catch {
                if (mine === round) {
                    lose();
                }
            }
        }

        function poll() {
            if (polling === null) {
                polling = setInterval(ask, POLL_MS);
                ask();
            }
        }

        function stopPolling() {
            clearInterval(polling);
            polling = null;
        }

        function hear(act) {
            stopPolling();
            clearTimeout(silence);
            silence = setTimeout(act, SILENT_MS);
        }

        function stop() {
            round?.abort();
            round = null;
            feed?.close();
            feed = null;
            clearTimeout(silence);
            clearTimeout(again);
            stopPolling();
        }

        function start() {
            stop();
            if (isPaused || isRefused || document.hidden) {
                return;
            }
            round = new AbortController();
            if (!window.EventSource) {
                poll();
            } else if (channel === null) {
                open();
            } else {
                stand(round.signal);
            }
        }

        // Asks until this tab is the one with the feed, or hears from that one.
        function stand(signal) {
            const lead = () => signal.aborted || new Promise((resolve) => {
                signal.addEventListener("abort", resolve);
                open();
            });
            // Refused when the round ends before its turn.
            navigator.locks.request(NAME, {signal}, lead).catch(() => undefined);
            silence = setTimeout(poll, 500);
        }

        function open() {
            let known = {};
            let isHeard = false;
            const key = keyOf();
            const followed = feed = new EventSource(words.feed + addressOf());
            // A connection can hang without an error.
            const leave = () => {
                followed.close();
                poll();
                again = setTimeout(open, AGAIN_MS);
            };
            const tell = (data) => {
                isHeard = true;
                hear(leave);
                known = mergeAll(known, data);
                take(known);
                channel?.postMessage({key, known});
            };
            clearTimeout(silence);
            silence = setTimeout(leave, SILENT_MS);
            followed.addEventListener("message", (event) => tell(JSON.parse(event.data)));
            followed.addEventListener("same", (event) => {
                // Only the time goes on.
                tell({counts: known.counts, at: JSON.parse(event.data)});
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
        }

        channel?.addEventListener("message", ({data}) => {
            if (round !== null && feed === null && data.key === keyOf()) {
                hear(poll);
                take(data.known);
            }
        });
        document.addEventListener("visibilitychange", start);
        addEventListener("pagehide", stop);
        addEventListener("pageshow", (event) => event.persisted && start());
        start();
        return {
            ask: () => isRefused || ask(),
            restart: () => {
                start();
                ask();
            },
            pause: (isSo) => {
                isPaused = isSo;
                start();
            },
        };
    }

    window.mcpFeed = {follow};
})();
