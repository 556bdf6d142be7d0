// What can be done to a row of the live page: its buttons, and the form for a message.
"use strict";
(() => {
    const root = document.getElementById("mcp-live");
    const words = root.dataset;
    const status = document.getElementById("mcp-live-status");
    const log = document.getElementById("mcp-log");
    const sure = document.getElementById("mcp-sure");
    const HARMLESS = new Set(["ping", "log"]);
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
        const isHarmless = HARMLESS.has(name);
        made.type = "button";
        made.className = isHarmless ? "button" : "button mcp-danger";
        made.textContent = words[name];
        hidden.className = "mcp-hidden";
        hidden.textContent = ` ${row.client ?? ""}`;
        made.append(hidden);
        made.addEventListener("click", () => {
            if (name === "ping") {
                act(name, row.id);
            } else if (isHarmless) {
                open(log, {name, id: row.id, button: made});
            } else {
                askFirst({name, id: row.id, button: made}, row);
            }
        });
        return made;
    }

    function open(dialog, whom) {
        addressee = whom;
        dialog.showModal();
    }

    // A dialog, so that no button moves, and what a second click of the same would hit does nothing.
    function askFirst(whom, row) {
        const title = words[whom.name];
        sure.querySelector("h2").textContent = title;
        sure.querySelector(".mcp-danger").textContent = title;
        sure.querySelector("li").textContent = ["client", "user", "server", "kind"]
            .map((column) => row[column]).filter(Boolean).join(" · ");
        open(sure, whom);
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
    for (const dialog of [log, sure]) {
        dialog.addEventListener("close", () => (addressee.button.isConnected ? addressee.button : status).focus());
        dialog.querySelector(".mcp-cancel").addEventListener("click", () => dialog.close());
    }

    log.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        const field = log.querySelector("input");
        act("log", addressee.id, field.value);
        field.value = "";
        log.close();
    });
    sure.querySelector(".mcp-danger").addEventListener("click", (event) => {
        if (event.detail < 2) {
            act(addressee.name, addressee.id);
            sure.close();
        }
    });

    // Menus close as others do: by Escape, and when something else is clicked.
    const menus = () => root.querySelectorAll(".mcp-menu[open]");
    root.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
            for (const menu of menus()) {
                menu.open = false;
                menu.querySelector("summary").focus();
            }
        }
    });
    document.addEventListener("click", (event) => {
        // A dialog belongs to the menu that it was opened from.
        if (!event.target.closest("dialog")) {
            menus().forEach((menu) => {
                menu.open = menu.contains(event.target);
            });
        }
    });

    window.mcpActs = {makeButtons, tell};
})();
