// Shows what a call gave: texts, JSON and images, short and as nothing but text and pixels.
"use strict";
(() => {
    const {visible} = window.mcpForms;
    const MAX_SHOWN = 20000;

    function shortened(text, words) {
        const rest = text.length - MAX_SHOWN;
        return rest > 0 ? `${visible(text.slice(0, MAX_SHOWN))}… (+${rest} ${words.more})` : visible(text);
    }

    function block(text, words, title) {
        const made = document.createElement("pre");
        made.tabIndex = 0;
        made.textContent = shortened(text, words);
        if (title) {
            made.setAttribute("aria-label", title);
        }
        return made;
    }

    function json(value, words, title) {
        return block(JSON.stringify(value, null, 2), words, title);
    }

    // Drawn, so that a strict Content-Security-Policy needs no exception for images from data.
    async function picture(content, words) {
        const bytes = Uint8Array.from(atob(content.data), (char) => char.charCodeAt(0));
        const bitmap = await createImageBitmap(new Blob([bytes], {type: content.mimeType}));
        const canvas = document.createElement("canvas");
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", words.image);
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        return canvas;
    }

    async function contentBlock(content, words) {
        if (content?.type === "text" && typeof content.text === "string") {
            return block(content.text, words);
        }
        if (content?.type === "image" && typeof content.data === "string") {
            try {
                return await picture(content, words);
            } catch {
                // No image that a browser draws: told of below.
            }
        }
        const shown = {...content};
        for (const key of ["data", "blob"]) {
            if (typeof shown[key] === "string" && shown[key].length > 200) {
                shown[key] = `… ${Math.floor(shown[key].length * 3 / 4)} ${words.bytes}`;
            }
        }
        return json(shown, words);
    }

    async function show(place, result, words) {
        const contents = result.content ?? result.contents;
        const parts = [];
        for (const each of Array.isArray(contents) ? contents.slice(0, 100) : []) {
            parts.push(await contentBlock(typeof each?.text === "string" && !each.type ? {...each, type: "text"} : each, words));
        }
        if (result.structuredContent !== undefined || !parts.length) {
            const title = document.createElement("h4");
            title.textContent = words.structured;
            parts.push(title, json(result.structuredContent ?? result, words, words.structured));
        }
        place.replaceChildren(...parts);
    }

    window.mcpResults = {show, json, shortened};
})();
