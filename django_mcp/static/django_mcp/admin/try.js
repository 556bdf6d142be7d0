// Calls an entry: sends the form, reads the stream of messages, and asks what the entry asks.
"use strict";
(() => {
    const {element, visible} = window.mcpElements;
    const {build, button, readJSON, refuse} = window.mcpForms;
    const {isObject} = window.mcpSchemas;
    const {json, pretty, shortened, show} = window.mcpResults;
    const form = document.getElementById("mcp-try");
    const words = form.dataset;
    const {server, revision, kind, key, sent, wire: entry, schema, completers, values, previous, viewer,
        is_destructive: isDestructive} =
        JSON.parse(document.getElementById("mcp-entry").textContent);
    const [fields, uri, status, progress, questions, result, wire, wireStatus, stop] =
        ["arguments", "uri", "status", "progress", "questions", "result", "wire", "wire-status", "stop"]
            .map((id) => document.getElementById(`mcp-${id}`));
    const caller = form.querySelector("[type=submit]");

    // The call that is open, from the button to the answer, with the questions in between.
    let open = null;

    // -- what is called

    const schemaOf = (parts, required) => ({type: "object", properties: Object.fromEntries(parts), required});

    // The variables of a URI template: pairs of the operator and the name.
    const variables = [...key.matchAll(/\{([+/?]?)([^{}]*)\}/g)]
        .flatMap(([, operator, names]) => names.split(",").map((name) => [operator, name]));

    const schemas = {
        tools: () => schema,
        prompts: () => schemaOf(
            (entry.arguments ?? []).map(({name, title, description}) => [name, {type: "string", title, description}]),
            (entry.arguments ?? []).filter(({required}) => required).map(({name}) => name)),
        templates: () => schemaOf(
            variables.map(([, name]) => (name.endsWith("*")
                ? [name.slice(0, -1), {type: "array", items: {type: "string"}, minItems: 1}]
                : [name, {type: "string", minLength: 1}])),
            variables.filter(([operator]) => operator !== "?").map(([, name]) => name.replace("*", ""))),
        resources: () => ({}),
    };

    function expand(found) {
        return key.replace(/\{([+/?]?)([^{}]*)\}/g, (_all, operator, names) => {
            const encode = operator === "+" ? encodeURI : encodeURIComponent;
            const parts = names.split(",").map((name) => name.replace("*", "")).flatMap((name) => (
                [found[name] ?? []].flat().map((each) => (operator === "?" ? `${name}=` : "") + encode(each))));
            const start = operator === "?" || operator === "/" ? operator : "";
            return parts.length ? start + parts.join(operator === "?" ? "&" : operator) : "";
        });
    }

    const requests = {
        tools: (found) => ["tools/call", {name: key, arguments: found}],
        prompts: (found) => ["prompts/get", {name: key, arguments: found}],
        templates: (found) => ["resources/read", {uri: expand(found)}],
        resources: () => ["resources/read", {uri: key}],
    };

    // What stands in the single fields, whether it is complete or not.
    const textsOfFields = () => Object.fromEntries(
        [...fields.querySelectorAll(":scope > .mcp-field > [data-name]")]
            .filter((field) => field.value !== "").map((field) => [field.dataset.name, field.value]));

    async function suggest(name, value) {
        const ref = kind === "prompts" ? {type: "ref/prompt", name: key} : {type: "ref/resource", uri: key};
        const {[name]: _own, ...others} = textsOfFields();
        const params = {ref, argument: {name, value}, context: {arguments: others}};
        let proposed = [];
        try {
            const answer = await post({method: "completion/complete", params});
            await read(answer.body, ({at, text}) => {
                if (at === "answer") {
                    const message = JSON.parse(text);
                    proposed = message.result?.completion?.values ?? [];
                    if (message.error && !open) {
                        tell(`${words.noProposals} ${visible(String(message.error.message).slice(0, 500))}`, true);
                    }
                }
            });
        } catch {
            // A field without proposals is a field: calling says what is wrong.
        }
        return proposed;
    }

    const toForm = (found) => {
        fields.replaceChildren();
        return build(fields, schemas[kind](), words, {values: found, suggest: {names: completers, ask: suggest}});
    };

    // The same as text, for what no form is made for.
    function toText(found) {
        const field = element("textarea", {id: "mcp-field-json", rows: 12, spellcheck: false, dir: "ltr"});
        field.value = JSON.stringify(found, null, 2);
        fields.replaceChildren(
            element("label", {htmlFor: field.id, textContent: `${words.arguments} (${words.json})`}), field);
        const read = () => {
            const value = readJSON(field, words) ?? {};
            return isObject(value) ? value : refuse(field, `${words.badJson} { … }`);
        };
        return {
            read: () => {
                field.dispatchEvent(new Event("input"));
                return read();
            },
            draft: read,
            report: (problems) => {
                if (problems.length) {
                    attempt(() => refuse(field, problems.map((each) => each.filter(Boolean).join(": ")).join("\n")));
                }
                return null;
            },
        };
    }

    let given = toForm(values);
    let isText = false;
    const asOther = document.getElementById("mcp-as");
    asOther?.addEventListener("click", () => attempt(() => {
        const found = given.draft();
        isText = !isText;
        given = isText ? toText(found) : toForm(found);
        asOther.textContent = isText ? words.asForm : words.asJson;
    }));

    // -- previous calls: those of this tab, and those that are recorded with their arguments

    const MAX_KEPT = 10;
    const MAX_KEPT_LENGTH = 20000;
    const place = `django_mcp.tried|${JSON.stringify([viewer, server, kind, key])}`;
    const chooser = document.getElementById("mcp-previous");

    function kept() {
        try {
            const found = JSON.parse(sessionStorage.getItem(place) ?? "[]");
            return Array.isArray(found) ? found : [];
        } catch {
            // What a browser does not keep is not offered.
            return [];
        }
    }

    function keep(found) {
        if (!chooser) {
            return;
        }
        const text = JSON.stringify(found);
        const others = kept().filter((each) => JSON.stringify(each.arguments) !== text);
        if (text.length <= MAX_KEPT_LENGTH) {
            try {
                sessionStorage.setItem(place, JSON.stringify(
                    [{at: Date.now() / 1000, arguments: found}, ...others].slice(0, MAX_KEPT)));
            } catch {
                // As above.
            }
        }
        offerPrevious();
    }

    let offered = [];

    function offerPrevious() {
        const known = new Set();
        offered = [...kept(), ...previous].filter((each) => {
            const text = JSON.stringify(each.arguments);
            return known.has(text) ? false : known.add(text);
        });
        const language = document.documentElement.lang || undefined;
        chooser.replaceChildren(chooser.options[0], ...offered.map((each, at) => new Option(
            `${new Date(each.at * 1000).toLocaleString(language)} ${visible(JSON.stringify(each.arguments).slice(0, 100))}`,
            String(at))));
        document.getElementById("mcp-previous-place").hidden = !offered.length;
    }

    chooser?.addEventListener("change", () => {
        const chosen = offered[Number(chooser.value)];
        if (chooser.value !== "" && chosen) {
            given = (isText ? toText : toForm)(chosen.arguments);
        }
    });
    if (chooser) {
        offerPrevious();
    }
    if (kind === "templates") {
        const preview = () => {
            uri.textContent = visible(expand(textsOfFields()));
        };
        fields.addEventListener("input", preview);
        preview();
    }

    // -- the open call

    const decimals = (value, digits) => value.toLocaleString(document.documentElement.lang || undefined,
        {minimumFractionDigits: digits, maximumFractionDigits: digits});
    const seconds = (ms) => decimals(ms / 1000, 2);

    function begin() {
        open = {abort: new AbortController(), startedAt: performance.now(), askedAt: 0, waitedMs: 0, answers: new Map(),
            session: null, isSent: true, share: "", boxes: new Map(), task: null};
        questions.replaceChildren();
        result.replaceChildren();
        wire.replaceChildren();
        stop.hidden = false;
        caller.disabled = true;
    }

    // How long the call took, without the time that the questions waited for their answers.
    function took(text) {
        return text.replace("{0}", seconds(performance.now() - open.startedAt - open.waitedMs));
    }

    function end(text, isWrong) {
        countWaiting();
        const waited = open.waitedMs ? ` ${words.waited.replace("{0}", seconds(open.waitedMs))}` : "";
        tell(took(text) + waited, isWrong);
        open = null;
        questions.replaceChildren();
        progress.hidden = true;
        stop.hidden = true;
        caller.disabled = false;
    }

    function countWaiting() {
        if (open.askedAt) {
            open.waitedMs += performance.now() - open.askedAt;
            open.askedAt = 0;
        }
        if (questions.childElementCount) {
            open.askedAt = performance.now();
        }
    }

    function tell(text, isWrong) {
        status.textContent = text;
        status.className = isWrong ? "errornote" : "";
    }

    function halt() {
        const isRunning = open.isSent;
        const reached = open.share ? ` ${words.reached.replace("{0}", open.share)}` : "";
        const {task} = open;
        open.abort.abort();
        if (task) {
            cancelTask(task);
            end(words.stoppedTask);
            return;
        }
        note({at: "stopped", text: "", time: Date.now() / 1000});
        end(isRunning ? words.stopped + reached : words.unanswered);
    }

    // -- messages

    function note({at, text, time}) {
        const message = text ? JSON.parse(text) : {};
        const title = {sent: words.sent, received: words.received, ahead: words.ahead, answer: words.received,
            stopped: words.closed}[at];
        const when = new Date(time * 1000);
        wire.dataset.first = wire.childElementCount ? wire.dataset.first : String(time);
        const after = decimals(time - Number(wire.dataset.first), 3);
        const clock = element("time", {dateTime: when.toISOString()},
            ` ${when.toLocaleTimeString([], {hour12: false})} (+${after} s) `);
        const name = message.method ? `${title}: ${message.method}` : title;
        const heading = element("h3", {textContent: visible(name.slice(0, 200))});
        const item = element("li", {}, element("div", {className: "mcp-head"}, heading, clock));
        if (text) {
            const code = pretty(text);
            item.firstChild.append(copier(code, heading.textContent));
            item.append(element("pre", {className: "mcp-code", tabIndex: 0, textContent: shortened(code, words)}));
        }
        wire.append(item);
    }

    function copier(text, title) {
        const made = button(words.copy, async () => {
            await navigator.clipboard.writeText(text);
            wireStatus.textContent = `${words.copied} ${title}`;
        });
        made.ariaLabel = `${words.copy}: ${title}`;
        // Browsers have no clipboard for pages that come over plain HTTP from elsewhere.
        made.hidden = !navigator.clipboard;
        return made;
    }

    function ahead(message) {
        const params = message.params ?? {};
        if (message.id !== undefined) {
            askAhead(message);
        } else if (message.method === "notifications/cancelled") {
            open.boxes.get(params.requestId)?.remove();
            open.boxes.delete(params.requestId);
            countWaiting();
        } else if (message.method === "notifications/progress") {
            showProgress(params);
        }
    }

    function showProgress(params) {
        progress.hidden = false;
        if (params.total > 0) {
            progress.max = params.total;
            progress.value = params.progress;
        } else {
            progress.removeAttribute("value");
        }
        open.share = params.total > 0 ? `${params.progress} / ${params.total}` : String(params.progress);
        tell(`${words.running} ${open.share} ${visible(String(params.message ?? "").slice(0, 300))}`);
    }

    async function answered(text, call) {
        const message = JSON.parse(text);
        const found = message.result ?? {};
        progress.hidden = true;
        const task = message.error || typeof found.taskId !== "string" ? null : found;
        if (task && (task.resultType === "task" || call.method === "tasks/get")) {
            await followTask(task, call);
        } else if (call.method === "tasks/update" && !message.error) {
            await getTask(open.task);
        } else if (message.error) {
            end(`${words.failed} ${visible(String(message.error.message).slice(0, 500))}`, true);
            reportProblems(message.error.message);
        } else if (found.inputRequests || found.requestState !== undefined) {
            const {method, params} = call;
            ask(Object.entries(found.inputRequests ?? {}), (inputResponses) => (
                send({method, params: {...params, inputResponses, requestState: found.requestState}})));
        } else {
            end(found.isError ? words.failed : words.done, found.isError);
            linkRecord(text);
            await show(result, text, words);
            document.dispatchEvent(new CustomEvent("mcp:answered", {detail: {params: call.params, result: found}}));
            if (found.isError) {
                reportProblems(found.content?.[0]?.text);
            }
        }
    }

    // -- calls that go on as tasks

    const FASTEST_MS = 500;
    const SLOWEST_MS = 10000;

    async function followTask(task, call) {
        const mine = open;
        const origin = open.task?.origin ?? call;
        open.task = {id: task.taskId, origin};
        open.isSent = true;
        if (task.status === "input_required") {
            ask(Object.entries(task.inputRequests ?? {}), (inputResponses) => (
                send({method: "tasks/update", params: {taskId: task.taskId, inputResponses}})));
        } else if (task.status === "working") {
            tell(`${words.task} ${visible(String(task.statusMessage ?? task.status).slice(0, 300))}`);
            const wait = Math.min(Math.max(Number(task.pollIntervalMs) || 0, FASTEST_MS), SLOWEST_MS);
            setTimeout(() => mine === open && getTask(mine.task), wait);
        } else if (task.status === "completed") {
            await answered(JSON.stringify({result: task.result ?? {}}), origin);
        } else {
            const text = task.error?.message ?? task.statusMessage ?? task.status;
            end(`${words.failed} ${visible(String(text).slice(0, 500))}`, true);
        }
    }

    const getTask = (task) => send({method: "tasks/get", params: {taskId: task.id}});

    async function cancelTask(task) {
        try {
            const answer = await post({method: "tasks/cancel", params: {taskId: task.id}});
            await read(answer.body, note);
        } catch (error) {
            tell(`${words.lost} ${visible(error.message)}`, true);
        }
    }

    // Says at their fields what the server found wrong with the arguments: a line each, `- /lines/0/sku: is required`.
    function reportProblems(text) {
        const lines = String(text ?? "").startsWith("Invalid arguments:\n") ? text.split("\n- ").slice(1) : [];
        given.report(lines.map(splitProblem))?.focus();
    }

    function splitProblem(line) {
        const at = line.indexOf(": ");
        return at < 0 ? ["", line] : [line.slice(0, at), line.slice(at + 2)];
    }

    // An internal error has a reference, by which its call is found.
    function linkRecord(text) {
        const reference = /\(reference ([0-9a-f]{12})\)/.exec(text)?.[1];
        if (reference && words.list) {
            const href = `${words.list.split("?")[0]}?${new URLSearchParams({reference})}`;
            status.append(" ", element("a", {href, textContent: words.toCall}));
        }
    }

    // -- questions

    // A form for each of these pairs of key and request; the last answer goes on.
    function ask(asked, proceed) {
        const answers = {};
        if (!asked.length) {
            proceed(answers);
            return;
        }
        for (const [name, request] of asked) {
            addQuestion(request, (answer) => {
                answers[name] = answer;
                if (Object.keys(answers).length === asked.length) {
                    proceed(answers);
                }
            });
        }
    }

    // A question that comes on the stream of the call, which goes on when it is answered.
    function askAhead(message) {
        const mine = open;
        const answer = async (found) => {
            mine.boxes.delete(message.id);
            tell(words.running);
            try {
                const response = {id: message.id, ...found};
                const told = await post({session: mine.session, response}, mine.abort.signal);
                note(await told.json());
            } catch (error) {
                lose(error, mine);
            }
        };
        if (message.method === "ping") {
            answer({result: {}});
        } else {
            open.boxes.set(message.id, addQuestion(message, (found) => answer({result: found})));
        }
    }

    function addQuestion(request, take) {
        const asked = String(request.params?.message ?? request.method).slice(0, 2000);
        const box = element("form", {className: "mcp-fields module", method: "post", noValidate: true},
            element("p", {className: "mcp-text", dir: "auto", textContent: visible(asked)}));
        const {read, wrong} = questionFields(box, request, asked);
        const finish = (answer) => {
            box.remove();
            countWaiting();
            take(answer);
        };
        box.addEventListener("submit", (event) => {
            event.preventDefault();
            attempt(() => finish(read()));
        });
        const isPage = request.params?.mode === "url";
        const accept = button(isPage ? words.visited : words.accept);
        accept.type = "submit";
        box.append(accept);
        if (request.method === "elicitation/create") {
            box.append(button(words.decline, () => finish({action: "decline"})),
                button(words.cancel, () => finish({action: "cancel"})));
        }
        const isFirst = !questions.childElementCount;
        questions.append(box);
        countWaiting();
        tell(words.asks);
        if (isFirst) {
            (wrong ?? box.querySelector("input, select, textarea, a, button"))?.focus();
        }
        return box;
    }

    // Returns `read` for the answer, and the first field that is wrong of an answer before.
    function questionFields(box, request, asked) {
        const params = request.params ?? {};
        if (request.method !== "elicitation/create") {
            // Sampling and roots: you play the client, in JSON.
            const field = element("textarea", {rows: 5, id: `mcp-answer-${questions.childElementCount}`, dir: "ltr"});
            const label = element("label", {htmlFor: field.id, textContent: `${words.answer} (${words.json})`});
            box.append(json(params, words), label, field);
            return {read: () => readJSON(field, words) ?? {}};
        }
        if (params.mode === "url") {
            box.append(linkTo(String(params.url).slice(0, 2000)));
            return {read: () => ({action: "accept"})};
        }
        // An answer that does not fit is asked for again, with what is wrong below the message.
        const base = [...open.answers.keys()].find((each) => asked.startsWith(`${each}\n\n- `)) ?? asked;
        const problems = asked.slice(base.length).split("\n- ").slice(1).map(splitProblem);
        const asking = build(box, params.requestedSchema, words, {values: open.answers.get(base)});
        return {
            wrong: asking.report(problems.map(([name, text]) => [name && `/${name}`, text])),
            read: () => {
                const content = asking.read();
                open.answers.set(base, content);
                return {action: "accept", content};
            },
        };
    }

    // The host is told before the link is followed; what is no address of a page is no link.
    function linkTo(text) {
        const address = element("p", {className: "mcp-code mcp-address", tabIndex: 0, textContent: visible(text)});
        if (!URL.canParse(text) || !["http:", "https:"].includes(new URL(text).protocol)) {
            return address;
        }
        const link = element("a", {href: text, target: "_blank", rel: "noopener noreferrer"});
        link.append(`${words.visit} `, element("strong", {textContent: new URL(text).host}));
        return element("div", {}, element("p", {}, link), address);
    }

    // -- talking to the server

    function attempt(act) {
        try {
            act();
        } catch (error) {
            const label = error.field?.labels?.[0]?.textContent;
            tell((label ? `${label}: ` : "") + visible(error.message), true);
            error.field?.focus();
        }
    }

    async function send(call) {
        const mine = open;
        let isAnswered = false;
        tell(words.running);
        mine.isSent = true;
        try {
            const answer = await post(call, mine.abort.signal);
            await read(answer.body, async (line) => {
                if (mine !== open) {
                    return;
                }
                if (line.at === "session") {
                    mine.session = line.text;
                    return;
                }
                note(line);
                if (line.at === "ahead") {
                    ahead(JSON.parse(line.text));
                } else if (line.at === "answer") {
                    isAnswered = true;
                    mine.isSent = false;
                    questions.replaceChildren();
                    countWaiting();
                    await answered(line.text, call);
                }
            });
            if (mine === open && !isAnswered) {
                end(words.lost, true);
            }
        } catch (error) {
            lose(error, mine);
        }
    }

    async function post(body, signal) {
        const answer = await fetch(words.url, {
            method: "POST",
            headers: {"Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value},
            body: JSON.stringify({server, revision, ...sent, ...body}),
            signal,
        });
        // Users who are not signed in any more are sent to the page where they can.
        if (!answer.ok || answer.redirected) {
            const isRefused = answer.status === 403 || answer.redirected;
            throw Object.assign(new Error(String(answer.status)), {
                told: isRefused ? words.refused : `${words.failed} ${answer.status}`,
            });
        }
        return answer;
    }

    function lose(error, mine) {
        if (mine === open) {
            end(error.told ?? `${words.lost} ${visible(error.message)}`, true);
        }
    }

    async function read(body, take) {
        const reader = body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
            const {value, done} = await reader.read();
            rest += value ?? "";
            const lines = rest.split("\n");
            rest = lines.pop();
            for (const line of lines) {
                await take(JSON.parse(line));
            }
            if (done) {
                return;
            }
        }
    }

    const sure = document.getElementById("mcp-sure");

    function call(found) {
        const [method, params] = requests[kind](found);
        begin();
        keep(found);
        send({method, params});
    }

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        // One call at a time: Stop ends the one that is open.
        if (!open) {
            attempt(() => {
                const found = given.read();
                if (isDestructive) {
                    sure.showModal();
                } else {
                    call(found);
                }
            });
        }
    });
    sure.querySelector(".mcp-cancel").addEventListener("click", () => sure.close());
    sure.querySelector(".mcp-danger").addEventListener("click", (event) => {
        // Not the second of two clicks on the button that asked.
        if (event.detail < 2) {
            sure.close();
            attempt(() => call(given.read()));
        }
    });
    stop.addEventListener("click", halt);

    // For what else of the page calls.
    window.mcpTry = {post, read};
})();
