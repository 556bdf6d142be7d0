// What can be done to a row of the live page: its buttons, and the form for a message.
"use strict";
(() => {
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const status = document.getElementById("mcp-live-status");
    const dialog = document.getElementById("mcp-log");
    const logForm = dialog.querySelector("form");
    const SURE_MS = 10000;
    let addressee = null;

    function tell(text, isWrong) {
        status.className = isWrong ? "errornote" : "";
        status.textContent = text;
    }

    // Beside the row as well, as long as it is there; what is read out is the status.
    function tellBeside(id, text) {
        for (const place of root.querySelectorAll(`tr[data-id="${id}"] .mcp-told`)) {
            place.textContent = text;
        }
    }

    async function act(name, id, text) {
        const body = new URLSearchParams({act: name, id, text: text ?? ""});
        const token = root.querySelector("[name=csrfmiddlewaretoken]").value;
        try {
            const answer = await fetch(words.act, {method: "POST", body, headers: {"X-CSRFToken": token}});
            const told = answer.headers.get("Content-Type")?.includes("json") ? await answer.json() : {};
            const message = told.done ?? told.error ?? words.failed;
            tell(message, !answer.ok);
            tellBeside(id, message);
        } catch {
            tell(words.failed, true);
        }
        root.dispatchEvent(new Event("acted"));
    }

    function makeButton(name, row) {
        const made = document.createElement("button");
        const hidden = document.createElement("span");
        made.type = "button";
        made.className = ["ping", "log"].includes(name) ? "button" : "button mcp-danger";
        made.textContent = words[name];
        hidden.className = "mcp-hidden";
        hidden.textContent = ` ${row.client ?? ""}`;
        made.append(hidden);
        made.addEventListener("click", () => {
            if (name === "log") {
                addressee = {id: row.id, button: made};
                dialog.showModal();
                logForm.querySelector("input").focus();
            } else if (name === "ping" || made.dataset.asked) {
                act(name, row.id);
            } else {
                askFirst(made, words[name], row.client ?? "");
            }
        });
        return made;
    }

    function askFirst(button, usual, whom) {
        const asked = `${words.again} ${usual} ${whom}`;
        button.dataset.asked = "1";
        button.firstChild.textContent = words.sure;
        tell(asked);
        const expire = () => {
            if (document.activeElement === button) {
                // Whoever is there may be slow; once more, should the row merely have moved.
                button.addEventListener("blur", () => setTimeout(expire), {once: true});
                return;
            }
            delete button.dataset.asked;
            button.firstChild.textContent = usual;
            if (status.textContent === asked) {
                tell("");
            }
        };
        setTimeout(expire, SURE_MS);
    }

    // What the site always refuses is not offered: the stream of a call ends with the call, only a
    // session's client is reached, and not all credentials can be revoked here.
    function isFutile(name, row) {
        if (name === "revoke" || name === "revoke_and_close") {
            return row.revocable === false;
        }
        return name === "close" ? row.is_call : (name === "ping" || name === "log") && !row.session;
    }

    function makeButtons(names, row) {
        const buttons = names.filter((name) => !isFutile(name, row)).map((name) => makeButton(name, row));
        const told = document.createElement("span");
        told.className = "mcp-told";
        if (!buttons.length) {
            return [told];
        }
        // One stop of the Tab key for each row.
        const menu = document.createElement("details");
        const title = document.createElement("summary");
        const hidden = document.createElement("span");
        menu.className = "mcp-menu";
        hidden.className = "mcp-hidden";
        hidden.textContent = ` ${row.client ?? ""}`;
        title.append(words.actions, hidden);
        menu.append(title, ...buttons);
        return [menu, told];
    }

    // The focus goes back to where it came from, or to what is told where that is gone.
    function closeForm() {
        dialog.close();
        (addressee.button.isConnected ? addressee.button : status).focus();
    }

    logForm.addEventListener("submit", (event) => {
        event.preventDefault();
        const field = logForm.querySelector("input");
        act("log", addressee.id, field.value);
        field.value = "";
        closeForm();
    });
    document.getElementById("mcp-log-cancel").addEventListener("click", closeForm);

    window.mcpActs = {makeButtons, tell};
})();
