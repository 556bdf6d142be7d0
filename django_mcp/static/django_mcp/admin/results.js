// Shows what a call gave: texts, JSON and images, short and as nothing but text and pixels.
"use strict";
(() => {
    const {element, visible} = window.mcpElements;
    const MAX_SHOWN = 20000;
    const MAX_PARTS = 100;
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
        const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
        const bitmap = await createImageBitmap(new Blob([bytes], {type}));
        const {width, height} = bitmap;
        const canvas = element("canvas", {width, height, role: "img", ariaLabel: words.image});
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        return canvas;
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
        if (typeof content?.text === "string" && (content.type ?? "text") === "text") {
            return block(content.text, words);
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
                shown[key] = `… ${Math.floor(shown[key].length * 3 / 4)} ${words.bytes}`;
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

    const pretty = (text) => JSON.stringify(parse(text), null, 2);

    // `text` is the whole answer, as it came over the wire.
    async function show(place, text, words) {
        const result = parse(text).result ?? {};
        const contents = result.content ?? result.contents;
        const parts = [];
        for (const each of Array.isArray(contents) ? contents.slice(0, MAX_PARTS) : []) {
            parts.push(await contentBlock(each, words));
        }
        if (Array.isArray(result.messages)) {
            if (typeof result.description === "string") {
                parts.push(block(result.description, words));
            }
            parts.push(await messages(result.messages, words));
        }
        if (result.structuredContent !== undefined || !parts.length) {
            const title = element("h3", {textContent: words.structured});
            parts.push(title, json(result.structuredContent ?? result, words, words.structured));
        }
        place.replaceChildren(...parts);
    }

    window.mcpResults = {show, json, pretty, shortened};
})();
