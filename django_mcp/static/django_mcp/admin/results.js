// Shows what a call gave: texts, JSON and images, short and as nothing but text and pixels.
"use strict";
(() => {
    const {element, visible} = window.mcpElements;
    const MAX_SHOWN = 20000;
    const MAX_PARTS = 100;
    const ENDINGS = {"application/pdf": "pdf", "application/json": "json", "text/plain": "txt", "text/csv": "csv",
        "text/html": "html", "text/markdown": "md", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
        "image/webp": "webp", "image/svg+xml": "svg", "audio/mpeg": "mp3", "audio/wav": "wav"};
    // A browser reads more kinds of images than these; SVG is a document with whatever is in it.
    const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

    function shortened(text, words) {
        const rest = text.length - MAX_SHOWN;
        return rest > 0 ? `${visible(text.slice(0, MAX_SHOWN))}… (+${rest} ${words.more})` : visible(text);
    }

    // A text in its own direction.
    function block(text, words) {
        return element("pre", {tabIndex: 0, dir: "auto", textContent: shortened(text, words)});
    }

    function json(value, words, title) {
        const made = element("pre", {tabIndex: 0, className: "mcp-code"});
        made.textContent = shortened(JSON.stringify(value, null, 2), words);
        if (title) {
            made.ariaLabel = title;
        }
        return made;
    }

    // Drawn, so that a strict Content-Security-Policy needs no exception for images from data.
    async function picture(data, type, words) {
        const bitmap = await createImageBitmap(new Blob([decoded(data)], {type}));
        const {width, height} = bitmap;
        const canvas = element("canvas", {width, height, role: "img", ariaLabel: words.image});
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        return canvas;
    }

    // How many bytes a text in base64 stands for.
    const sizeOf = (data) => Math.floor(data.replace(/=+$/, "").length * 3 / 4);

    // A file to save, named as its URI ends; the bytes are read when that is asked for.
    function saver(bytesOf, usual, uri, words) {
        const name = stringOr(uri, "").split(/[/\\?#]/).filter(Boolean).pop() ?? "";
        const made = element("button", {type: "button", className: "button", textContent: words.save});
        made.addEventListener("click", () => {
            const url = URL.createObjectURL(new Blob([bytesOf()], {type: "application/octet-stream"}));
            const ending = /\.[A-Za-z0-9]{1,8}$/.test(name) ? "" : `.${usual}`;
            element("a", {href: url, download: `${visible(name).slice(0, 100) || "file"}${ending}`}).click();
            setTimeout(() => URL.revokeObjectURL(url), 60000);
        });
        return made;
    }

    const decoded = (data) => Uint8Array.from(atob(data), (char) => char.charCodeAt(0));

    function withSaver(shown, content, words) {
        const data = [content?.data, content?.blob].find((each) => typeof each === "string");
        const type = stringOr(content?.mimeType, "").split(";")[0].trim().toLowerCase();
        const isText = typeof content?.text === "string" && typeof content?.uri === "string";
        if (data === undefined && !isText) {
            return shown;
        }
        const ending = ENDINGS[type] ?? (isText ? "txt" : "bin");
        const bytesOf = () => (isText ? content.text : decoded(data));
        return element("div", {}, shown, element("p", {}, saver(bytesOf, ending, content.uri, words)));
    }

    const stringOr = (value, other) => (typeof value === "string" ? value : other);

    // An image as it stands in a content, or what was read of a resource.
    function imageOf(content) {
        const data = content?.type === "image" ? content.data : content?.blob;
        const type = stringOr(content?.mimeType, "").split(";")[0].trim().toLowerCase();
        return typeof data === "string" && PICTURES.has(type) ? {data, type} : null;
    }

    async function contentBlock(content, words) {
        if (content?.type === "resource" && content.resource) {
            return contentBlock({...content.resource, type: undefined}, words);
        }
        return withSaver(await shownContent(content, words), content, words);
    }

    async function shownContent(content, words) {
        if (typeof content?.text === "string" && (content.type ?? "text") === "text") {
            const value = readText(content.text);
            return value === undefined ? block(content.text, words) : json(value, words);
        }
        const image = imageOf(content);
        if (image) {
            try {
                return await picture(image.data, image.type, words);
            } catch {
                // It is no image that a browser draws, and is shown as JSON.
            }
        }
        const shown = {...content};
        for (const key of ["data", "blob"]) {
            if (typeof shown[key] === "string" && shown[key].length > 200) {
                const size = sizeOf(shown[key]).toLocaleString(document.documentElement.lang || undefined);
                shown[key] = `… ${size} ${words.bytes}`;
            }
        }
        return json(shown, words);
    }

    async function messages(given, words) {
        const list = element("ol", {className: "mcp-messages"});
        for (const each of given.slice(0, MAX_PARTS)) {
            const role = element("h3", {textContent: visible(stringOr(each?.role, "?").slice(0, 100))});
            const item = element("li", {}, role);
            for (const content of [each?.content].flat().slice(0, MAX_PARTS)) {
                item.append(await contentBlock(content, words));
            }
            list.append(item);
        }
        return list;
    }

    // Numbers as they were written: a browser would round some of them.
    function parse(text) {
        return JSON.parse(text, (_key, part, context) => (
            typeof part === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : part));
    }

    // What a text has as JSON, if that is more than a single value; undefined if it is another text.
    function readText(text) {
        try {
            return /^\s*[[{]/.test(text) ? parse(text) : undefined;
        } catch {
            return undefined;
        }
    }

    // Whether a content says the same as what comes beside it for programs.
    function isSame(content, structured) {
        const text = content?.type === "text" && typeof content.text === "string" ? content.text : null;
        const value = text === null ? undefined : readText(text);
        return value !== undefined && JSON.stringify(value) === JSON.stringify(structured);
    }

    // A single text that the server has wrapped as `{"result": …}`.
    function isWrapped(contents, structured) {
        const text = contents.length === 1 && contents[0]?.type === "text" ? contents[0].text : null;
        const value = Object.keys(structured ?? {}).length === 1 ? structured.result : undefined;
        return text !== null && value !== undefined
            && (value === text || JSON.stringify(value) === text || JSON.stringify(readText(text)) === JSON.stringify(value));
    }

    const pretty = (text) => JSON.stringify(parse(text), null, 2);

    // `text` is the whole answer, as it came over the wire.
    async function show(place, text, words) {
        const result = parse(text).result ?? {};
        const given = result.content ?? result.contents;
        const contents = Array.isArray(given) ? given.slice(0, MAX_PARTS) : [];
        const structured = isWrapped(contents, result.structuredContent) ? undefined : result.structuredContent;
        const parts = [];
        for (const each of contents.filter((content) => structured === undefined || !isSame(content, structured))) {
            parts.push(await contentBlock(each, words));
        }
        if (Array.isArray(result.messages)) {
            if (typeof result.description === "string") {
                parts.push(block(result.description, words));
            }
            parts.push(await messages(result.messages, words));
        }
        if (structured !== undefined || !parts.length) {
            const title = element("h3", {textContent: words.structured});
            parts.push(title, json(structured ?? result, words, words.structured));
        }
        place.replaceChildren(...parts);
    }

    window.mcpResults = {show, json, pretty, shortened};
})();
