// Makes form fields of a JSON Schema, and reads them back as the value that they describe.
// Everything from a schema is set as text or as a property, never as HTML.
"use strict";
(() => {
    let made = 0;

    function follow(schema, root) {
        for (let hops = 0; schema && typeof schema.$ref === "string" && hops < 20; hops++) {
            const parts = schema.$ref.startsWith("#/") ? schema.$ref.slice(2).split("/") : [];
            const found = parts.reduce(
                (place, part) => place?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
            schema = parts.length && typeof found === "object" && found ? {...found, ...schema, $ref: found.$ref} : {};
        }
        return schema && typeof schema === "object" ? schema : {};
    }

    function resolve(raw, root) {
        const schema = follow(raw, root);
        const others = (schema.anyOf ?? schema.oneOf)?.filter?.((each) => each?.type !== "null");
        if (others?.length === 1) {
            const {anyOf, oneOf, ...rest} = schema;
            return {...resolve(others[0], root), ...rest, type: resolve(others[0], root).type};
        }
        return schema;
    }

    function isNullable(raw, root) {
        const schema = follow(raw, root);
        return [schema, ...[schema.anyOf ?? schema.oneOf ?? []].flat()].some((each) => [each?.type].flat().includes("null"));
    }

    function typeOf(schema) {
        const type = Array.isArray(schema.type) ? schema.type.filter((each) => each !== "null") : [schema.type];
        return type.length === 1 ? type[0] : undefined;
    }

    // What can be chosen from: pairs of value and title, or null.
    function choicesOf(schema) {
        if (Array.isArray(schema.enum)) {
            return schema.enum.map((value, at) => [value, schema.enumNames?.[at] ?? value]);
        }
        const options = schema.oneOf ?? schema.anyOf;
        if (Array.isArray(options) && options.length && options.every((each) => each && "const" in each)) {
            return options.map((each) => [each.const, each.title ?? each.const]);
        }
        return null;
    }

    // Throws, and says at the field what is wrong with what stands there.
    function refuse(field, text) {
        const wrong = new Error(text);
        wrong.field = field;
        const told = document.getElementById(`${field.id}-error`) ?? complaintAt(field);
        told.textContent = visible(text);
        throw wrong;
    }

    // A place for what is wrong with a field; it goes when something else is entered.
    function complaintAt(field) {
        const told = document.createElement("p");
        const usual = field.getAttribute("aria-describedby") ?? "";
        told.className = "mcp-error";
        told.id = `${field.id}-error`;
        field.after(told);
        field.setAttribute("aria-invalid", "true");
        field.setAttribute("aria-describedby", `${told.id} ${usual}`.trim());
        field.addEventListener("input", () => {
            told.remove();
            field.removeAttribute("aria-invalid");
            field.setAttribute("aria-describedby", usual);
        }, {once: true});
        return told;
    }

    // Whether an integer as it was written is another one here, and so would be on the wire.
    const isRounded = (written) => /^[-+]?\d+$/.test(written) && !Number.isSafeInteger(Number(written));

    const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    // As it may stand on a control.
    const shown = (value) => visible(textOf(value).slice(0, 200));

    function select(options, blank) {
        const field = document.createElement("select");
        if (blank) {
            field.append(new Option(`– ${blank} –`, ""));
        }
        options.forEach(([, title], at) => field.append(new Option(shown(title), String(at))));
        const propose = (usual, isRequired) => {
            const at = options.findIndex(([value]) => JSON.stringify(value) === JSON.stringify(usual));
            if (!isRequired) {
                field.options[0].text = `– ${blank}: ${shown(options[at]?.[1] ?? usual)} –`;
            } else if (at >= 0) {
                field.value = String(at);
            }
        };
        return {field, propose, read: () => (field.value === "" ? undefined : options[Number(field.value)][0])};
    }

    // What is used when nothing is given is seen where that would stand; what has to be given begins with it.
    function proposeText(field, text, isRequired) {
        field.placeholder = shown(text);
        if (isRequired) {
            field.value = text;
        }
    }

    function readJSON(field, words) {
        const text = field.value.trim();
        if (text === "") {
            return undefined;
        }
        let rounded = null;
        let value;
        try {
            value = JSON.parse(text, (_key, part, context) => {
                const written = context?.source ?? String(part);
                rounded ??= typeof part === "number" && isRounded(written) ? written : null;
                return part;
            });
        } catch (error) {
            refuse(field, `${words.badJson} ${error.message}`);
        }
        if (rounded !== null) {
            refuse(field, `${words.tooLarge} ${rounded}`);
        }
        return value;
    }

    function readNumber(field, isInteger, words) {
        const value = Number(field.value);
        if (isInteger && Number.isInteger(value) && !Number.isSafeInteger(value)) {
            refuse(field, `${words.tooLarge} ${field.value}`);
        }
        return field.value === "" ? undefined : value;
    }

    // `blank` is what it is called when nothing is chosen; null: something has to be.
    function input(schema, isRequired, blank, words) {
        const choices = choicesOf(schema);
        if (choices) {
            return select(choices, blank);
        }
        const type = typeOf(schema);
        if (type === "boolean") {
            return select([[true, words.yes], [false, words.no]], blank);
        }
        if (type === "integer" || type === "number") {
            const field = document.createElement("input");
            field.type = "number";
            field.step = type === "integer" ? "1" : "any";
            return {field, read: () => readNumber(field, type === "integer", words)};
        }
        if (type === "string") {
            const field = document.createElement(schema.maxLength > 200 ? "textarea" : "input");
            return {field, isText: true, read: () => (field.value === "" && !isRequired ? undefined : field.value)};
        }
        const field = document.createElement("textarea");
        field.rows = 4;
        field.spellcheck = false;
        return {field, isJSON: true, read: () => readJSON(field, words)};
    }

    function build(place, schema, words) {
        const root = schema ?? {};
        const required = new Set(Array.isArray(root.required) ? root.required : []);
        const readers = [];
        for (const [name, raw] of Object.entries(root.properties ?? {})) {
            const part = resolve(raw, root);
            const isRequired = required.has(name);
            // What has to be there and may be null is null when it is left empty.
            const isNull = isRequired && isNullable(raw, root);
            const blank = isNull ? "null" : isRequired ? null : words.optional;
            const {field, read, isJSON, isText, propose} = input(part, isRequired && !isNull, blank, words);
            const row = document.createElement("div");
            const label = document.createElement("label");
            const help = document.createElement("p");
            field.id = `mcp-field-${++made}`;
            field.dataset.name = name;
            label.htmlFor = field.id;
            const title = typeof part.title === "string" ? part.title : name;
            label.textContent = visible(title.slice(0, 200)) + (isRequired ? " *" : "") + (isJSON ? ` (${words.json})` : "");
            help.className = "help";
            help.id = `${field.id}-help`;
            help.textContent = visible(String(part.description ?? "").slice(0, 1000));
            if (part.default !== undefined && part.default !== null) {
                if (propose) {
                    propose(part.default, isRequired);
                } else {
                    proposeText(field, isJSON ? JSON.stringify(part.default) : textOf(part.default), isRequired);
                }
            }
            // An empty text is a text.
            field.required = isRequired && !isNull && !isText;
            row.append(label, field);
            if (help.textContent) {
                field.setAttribute("aria-describedby", help.id);
                row.append(help);
            }
            place.append(row);
            readers.push([name, isNull ? () => read() ?? null : read]);
        }
        return () => {
            const found = {};
            for (const [name, read] of readers) {
                const value = read();
                if (value !== undefined) {
                    Object.defineProperty(found, name, {value, enumerable: true});
                }
            }
            return found;
        };
    }

    // What cannot be seen is written as an escape, so that nothing hides or turns text around.
    const visible = (text) => text.replace(/[^\P{C}\n\t]|[\u2028\u2029]/gu,
        (char) => `\\u{${char.codePointAt(0).toString(16)}}`);

    window.mcpForms = {build, visible, readJSON};
})();
