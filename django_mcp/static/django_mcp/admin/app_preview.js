// The host of a tool's page, by MCP Apps 2026-01-26: shows the page in a frame, gives it the result of the call that
// the form made, calls for it what it asks for, and lists the messages. All that comes from the page is hostile.
"use strict";
(() => {
    const {element, visible} = window.mcpElements;
    const {shortened} = window.mcpResults;
    const {post, read} = window.mcpTry;
    const VERSION = "2026-01-26";
    const MAX_MESSAGES = 200;
    const MAX_CALLS = 4;
    const MAX_HEIGHT = 4000;
    const section = document.getElementById("mcp-preview");
    const words = section.dataset;
    const {url, version, hidden} = JSON.parse(document.getElementById("mcp-preview-given").textContent);
    const {wire: tool} = JSON.parse(document.getElementById("mcp-entry").textContent);
    const [theme, width, again, status, place, log] = ["theme", "width", "load", "status", "place", "log"]
        .map((name) => document.getElementById(`mcp-preview-${name}`));

    // The page that is shown, and the last call: its arguments and result.
    let page = null;
    let call = null;

    function tell(text, isWrong) {
        status.textContent = text;
        status.className = isWrong ? "errornote" : "";
    }

    // -- messages

    function note(sender, message) {
        const kind = message.method ?? (message.error ? words.error : words.answer);
        const heading = element("h3", {textContent: `${sender}: ${visible(String(kind).slice(0, 200))}`});
        let text;
        try {
            text = JSON.stringify(message, null, 2);
        } catch (error) {
            text = String(error);
        }
        log.append(element("li", {}, heading,
            element("pre", {className: "mcp-code", tabIndex: 0, textContent: shortened(text, words)})));
        if (log.childElementCount > MAX_MESSAGES) {
            log.firstChild.remove();
        }
    }

    function send(to, message) {
        const sent = {jsonrpc: "2.0", ...message};
        note(words.host, sent);
        // The page has no origin.
        to.frame.contentWindow?.postMessage(sent, "*");
    }

    const notify = (to, name, params) => send(to, {method: `ui/notifications/${name}`, params});

    // -- what hosts tell and do

    function context() {
        return {
            theme: theme.value, displayMode: "inline", availableDisplayModes: ["inline"], platform: "web",
            containerDimensions: {width: place.clientWidth, maxHeight: MAX_HEIGHT, ...(width.value && {width: Number(width.value)})},
            locale: document.documentElement.lang, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
            toolInfo: {tool},
        };
    }

    const fail = (message, code = -32603) => Object.assign(new Error(message), {code});

    // Calls a tool or reads a resource as the form does, with the user's own rights.
    async function pass(to, method, params) {
        if (to.calls >= MAX_CALLS) {
            throw fail(words.busy);
        }
        to.calls += 1;
        let answer = null;
        const own = new AbortController();
        try {
            const response = await post({method, params}, AbortSignal.any([own.signal, to.abort.signal]));
            await read(response.body, ({at, text}) => {
                const message = at === "ahead" || at === "answer" ? JSON.parse(text) : {};
                if (at === "answer") {
                    answer = message;
                } else if (message.id !== undefined && message.method) {
                    throw fail(words.asks);
                }
            });
        } finally {
            // A question that stays open would hold the call.
            own.abort();
            to.calls -= 1;
        }
        const {result, error} = answer ?? {error: fail("No answer")};
        if (error) {
            throw fail(String(error.message), error.code);
        }
        if (result.inputRequests || result.requestState !== undefined) {
            throw fail(words.asks);
        }
        return result;
    }

    const answers = {
        "ui/initialize": () => ({
            protocolVersion: VERSION, hostInfo: {name: "django_mcp", version}, hostContext: context(),
            hostCapabilities: {serverTools: {}, serverResources: {}, openLinks: {}, logging: {},
                updateModelContext: {text: {}, structuredContent: {}}, message: {text: {}}},
        }),
        "ping": () => ({}),
        "ui/message": () => ({}),
        "ui/update-model-context": () => ({}),
        "ui/request-display-mode": () => ({mode: "inline"}),
        // It is shown, and not followed.
        "ui/open-link": (_to, params) => {
            tell(`${words.opens} ${visible(String(params.url).slice(0, 500))}`);
            return {};
        },
        "tools/call": (to, {name, arguments: given = {}}) => {
            if (typeof name !== "string" || hidden.includes(name)) {
                throw fail(`Unknown tool: ${String(name).slice(0, 100)}`, -32602);
            }
            return pass(to, "tools/call", {name, arguments: given});
        },
        "resources/read": (to, {uri}) => pass(to, "resources/read", {uri: String(uri)}),
    };

    const heard = {
        "ui/notifications/initialized": (to) => {
            tell(words.started);
            if (call) {
                notify(to, "tool-input", {arguments: call.arguments});
                notify(to, "tool-result", call.result);
                tell(call.result.isError ? words.failed : words.shown);
            }
        },
        "ui/notifications/size-changed": (to, {height}) => {
            if (Number.isFinite(height) && height > 0) {
                to.frame.height = Math.min(Math.ceil(height), MAX_HEIGHT);
            }
        },
    };

    async function answer(to, {id, method, params}) {
        const given = params !== null && typeof params === "object" ? params : {};
        try {
            if (!Object.hasOwn(answers, method)) {
                throw fail("Method not found", -32601);
            }
            send(to, {id, result: await answers[method](to, given)});
        } catch (error) {
            if (to === page) {
                send(to, {id, error: {code: error.code ?? -32603, message: error.told ?? error.message}});
            }
        }
    }

    window.addEventListener("message", ({source, data}) => {
        if (!page || source !== page.frame.contentWindow || data?.jsonrpc !== "2.0") {
            return;
        }
        note(words.page, data);
        const isRequest = typeof data.id === "number" || typeof data.id === "string";
        page.isStarted ||= data.method === "ui/initialize";
        if (typeof data.method === "string" && isRequest) {
            answer(page, data);
        } else if (typeof data.method === "string" && Object.hasOwn(heard, data.method)) {
            heard[data.method](page, data.params ?? {});
        } else if (data.id === "teardown") {
            page.tornDown();
        }
    });

    // -- the frame

    const setWidth = () => {
        page.frame.width = width.value || "100%";
    };

    // A page may keep something before it goes, and a host does not wait for long.
    async function close(old) {
        old.abort.abort();
        if (old.isStarted) {
            const torn = new Promise((resolve) => {
                old.tornDown = resolve;
            });
            send(old, {id: "teardown", method: "ui/resource-teardown", params: {}});
            await Promise.race([torn, new Promise((resolve) => {
                setTimeout(resolve, 500);
            })]);
        }
    }

    async function load() {
        const mine = {calls: 0, isStarted: false, hasLoaded: false, abort: new AbortController(), tornDown() {}};
        if (page) {
            await close(page);
        }
        log.replaceChildren();
        tell(words.loading);
        const frame = mine.frame = element("iframe", {title: words.title, src: url});
        frame.sandbox.add("allow-scripts");
        page = mine;
        setWidth();
        frame.addEventListener("load", () => {
            if (page !== mine) {
                return;
            }
            if (mine.hasLoaded) {
                // Another document is in the frame now, and could speak for the page.
                mine.abort.abort();
                mine.isStarted = false;
                frame.remove();
                tell(words.left, true);
            } else if (!mine.isStarted && status.textContent === words.loading) {
                tell(words.silent);
            }
            mine.hasLoaded = true;
        });
        place.replaceChildren(frame);
    }

    document.addEventListener("securitypolicyviolation", ({effectiveDirective}) => {
        if (effectiveDirective === "frame-src") {
            tell(words.blocked, true);
        }
    });
    document.addEventListener("mcp:answered", ({detail: {params, result}}) => {
        call = {arguments: params.arguments, result};
        load();
    });
    theme.addEventListener("change", () => notify(page, "host-context-changed", {theme: theme.value}));
    width.addEventListener("change", () => {
        setWidth();
        notify(page, "host-context-changed", {containerDimensions: context().containerDimensions});
    });
    again.addEventListener("click", load);
    load();
})();
