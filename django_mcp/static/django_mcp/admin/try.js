// Calls an entry: sends the form, reads the stream of what is exchanged, asks what the tool asks.
"use strict";
(() => {
    const {build, readJSON, visible} = window.mcpForms;
    const form = document.getElementById("mcp-try");
    const words = form.dataset;
    const entry = JSON.parse(document.getElementById("mcp-entry").textContent);
    const [status, progress, questions, result, wire, stop] = ["status", "progress", "questions", "result", "wire", "stop"]
        .map((id) => document.getElementById(`mcp-${id}`));
    const readForm = build(document.getElementById("mcp-arguments"), entry.schema, words);
    let running = null;
    // Where questions come ahead of the answer: the session that they are answered in.
    let session = null;
    const asking = new Map();

    function note(at, text) {
        const item = document.createElement("li");
        const title = document.createElement("h4");
        const code = document.createElement("pre");
        title.textContent = {sent: words.sent, received: words.received, ahead: words.ahead, answer: words.received}[at] ?? "";
        code.tabIndex = 0;
        code.textContent = window.mcpResults.shortened(text, words);
        item.append(title, code);
        wire.append(item);
    }

    function tell(text, isWrong) {
        status.textContent = text;
        status.className = isWrong ? "errornote" : "";
    }

    function ahead(message, call) {
        const params = message.params ?? {};
        if (message.id !== undefined) {
            askAhead(message, call);
            return;
        }
        if (message.method === "notifications/cancelled") {
            asking.get(params.requestId)?.remove();
            asking.delete(params.requestId);
        }
        if (message.method === "notifications/progress") {
            progress.hidden = false;
            if (params.total > 0) {
                progress.max = params.total;
                progress.value = params.progress;
            } else {
                progress.removeAttribute("value");
            }
            const share = params.total > 0 ? `${params.progress} / ${params.total}` : String(params.progress);
            tell(`${words.running} ${share} ${visible(String(params.message ?? "").slice(0, 300))}`);
        }
    }

    async function answered(text, call) {
        const message = JSON.parse(text);
        progress.hidden = true;
        if (message.error) {
            tell(`${words.failed} ${visible(String(message.error.message).slice(0, 500))}`, true);
            return;
        }
        const found = message.result ?? {};
        if (found.inputRequests || found.requestState !== undefined) {
            ask(found, call);
            return;
        }
        tell(found.isError ? words.failed : words.done, found.isError);
        await window.mcpResults.show(result, text, words);
    }

    // One box with a form for each question; the last answer sends the call again.
    function ask(found, call) {
        const asked = Object.entries(found.inputRequests ?? {});
        const answers = {};
        const proceed = () => send({...call, inputResponses: answers, requestState: found.requestState});
        questions.replaceChildren();
        if (!asked.length) {
            proceed();
            return;
        }
        tell(words.asks);
        for (const [key, request] of asked) {
            addQuestion(request, (answer) => {
                answers[key] = answer;
                if (Object.keys(answers).length === asked.length) {
                    proceed();
                }
            });
        }
        questions.querySelector("input, select, textarea, button")?.focus();
    }

    // A question that comes on the stream of the call, which goes on when it is answered.
    function askAhead(message, call) {
        const mine = running;
        const answer = async (given) => {
            asking.delete(message.id);
            tell(words.running);
            try {
                const found = await post({...call, session, response: {id: message.id, ...given}}, mine.signal);
                const {at, text} = await found.json();
                note(at, text);
            } catch (error) {
                lost(error, mine);
            }
        };
        if (message.method === "ping") {
            answer({result: {}});
            return;
        }
        tell(words.asks);
        const box = addQuestion(message, (result) => answer({result}));
        asking.set(message.id, box);
        box.querySelector("input, select, textarea, button")?.focus();
    }

    function addQuestion(request, take) {
        const box = document.createElement("form");
        box.className = "mcp-fields module";
        const text = document.createElement("p");
        text.className = "mcp-text";
        text.textContent = visible(String(request.params?.message ?? request.method).slice(0, 2000));
        box.append(text);
        const read = questionFields(box, request);
        const finish = (answer) => {
            box.remove();
            take(answer);
        };
        box.addEventListener("submit", (event) => {
            event.preventDefault();
            attempt(() => finish(read()));
        });
        box.append(button(words.accept, "submit"));
        if (request.method === "elicitation/create") {
            box.append(
                button(words.decline, "button", () => finish({action: "decline"})),
                button(words.cancel, "button", () => finish({action: "cancel"})));
        }
        questions.append(box);
        return box;
    }

    function questionFields(box, request) {
        const params = request.params ?? {};
        if (request.method !== "elicitation/create") {
            // Sampling and roots: whoever tries plays the client, in JSON.
            box.append(window.mcpResults.json(params, words));
            const label = document.createElement("label");
            const field = document.createElement("textarea");
            field.rows = 5;
            field.id = `mcp-answer-${questions.childElementCount}`;
            label.htmlFor = field.id;
            label.textContent = `${words.answer} (${words.json})`;
            box.append(label, field);
            return () => readJSON(field, words) ?? {};
        }
        if (params.mode === "url") {
            const address = document.createElement("code");
            address.textContent = visible(String(params.url).slice(0, 2000));
            box.append(address);
            return () => ({action: "accept"});
        }
        const read = build(box, params.requestedSchema, words);
        return () => ({action: "accept", content: read()});
    }

    function button(text, type, act) {
        const made = document.createElement("button");
        made.type = type;
        made.className = "button mcp-plain";
        made.textContent = text;
        if (act) {
            made.addEventListener("click", act);
        }
        return made;
    }

    function attempt(act) {
        try {
            act();
        } catch (error) {
            tell(visible(error.message), true);
            error.field?.focus();
        }
    }

    async function send(call) {
        running?.abort();
        const mine = running = new AbortController();
        clearQuestions();
        result.replaceChildren();
        tell(words.running);
        stop.hidden = false;
        try {
            const answer = await post(call, mine.signal);
            await read(answer.body, async ({at, text}) => {
                if (at === "session") {
                    session = text;
                    return;
                }
                note(at, text);
                if (at === "ahead") {
                    ahead(JSON.parse(text), call);
                } else if (at === "answer") {
                    clearQuestions();
                    await answered(text, call);
                }
            });
        } catch (error) {
            lost(error, mine);
        }
        if (mine === running) {
            stop.hidden = true;
            progress.hidden = true;
        }
    }

    async function post(given, signal) {
        const answer = await fetch(words.url, {
            method: "POST",
            headers: {"Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value},
            body: JSON.stringify(given),
            signal,
        });
        // Whoever is not signed in any more is sent to the page where one does.
        if (!answer.ok || answer.redirected) {
            const wrong = new Error(String(answer.status));
            wrong.told = answer.status === 403 || answer.redirected ? words.refused : `${words.failed} ${answer.status}`;
            throw wrong;
        }
        return answer;
    }

    function lost(error, mine) {
        if (mine === running) {
            const isLeft = error.name === "AbortError";
            clearQuestions();
            tell(isLeft ? "" : error.told ?? `${words.lost} ${visible(error.message)}`, !isLeft);
        }
    }

    function clearQuestions() {
        asking.clear();
        questions.replaceChildren();
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

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        attempt(() => {
            const given = readForm();
            const {server, kind, key, revision} = entry;
            wire.replaceChildren();
            send(kind === "tools" || kind === "prompts"
                ? {server, kind, key, revision, arguments: given}
                : {server, kind, key, revision, uri: given.uri});
        });
    });
    stop.addEventListener("click", () => running?.abort());
})();
