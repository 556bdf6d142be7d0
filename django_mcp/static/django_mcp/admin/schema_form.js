// Makes the fields of a JSON Schema, and reads them back as the value that they describe.
// Everything from a schema is set as text or as a property, never as HTML.
//
// A control is {place, label, read, write, at}: its element and the title of it, its value (undefined if it is not
// given), how to fill it, and the element for a problem at the rest of a JSON Pointer. What cannot be read as a value
// is refused at its field; all else is for the server to judge.
"use strict";
(() => {
    const {element, visible} = window.mcpElements;
    const {choicesOf, fits, isDecimal, isNullable, isObject, isSame, resolve, typeOf, variantsOf} = window.mcpSchemas;
    // A schema may refer to itself: what is deeper is entered as JSON.
    const MAX_DEPTH = 8;
    const MAX_FIRST_ITEMS = 10;
    const CONTROLS = "input, select, textarea, button";
    const FORMATS = {date: "date", time: "time", email: "email", uri: "url"};
    let made = 0;

    // -- texts

    const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    // As it may stand on a control.
    const shown = (value) => visible(textOf(value).slice(0, 200));

    // What a value has to be, in short.
    function rulesOf(schema, words) {
        const bounds = [["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["exclusiveMaximum", "<"],
            ["multipleOf", words.multiple], ["minLength", "≥", words.characters], ["maxLength", "≤", words.characters],
            ["minItems", "≥", words.items], ["maxItems", "≤", words.items], ["pattern", words.pattern]];
        // What must not be empty is marked as required.
        const isTold = (name) => schema[name] !== undefined && !(name === "minLength" && schema[name] <= 1);
        const found = bounds.filter(([name]) => isTold(name))
            .map(([name, sign, unit = ""]) => `${unit} ${sign} ${shown(schema[name])}`.trim());
        if (schema.uniqueItems) {
            found.push(words.unique);
        }
        if (typeof schema.format === "string" && !(schema.format in FORMATS) && schema.format !== "date-time") {
            found.push(`${words.format} ${shown(schema.format)}`);
        }
        return found.join(", ");
    }

    function helpOf(schema, words, usual) {
        const text = visible(String(schema.description ?? "").slice(0, 1000));
        const told = [text, rulesOf(schema, words), usual].filter(Boolean);
        return element("p", {className: "help", dir: "auto", textContent: told.join(" · ")});
    }

    function titleOf(schema, about) {
        const title = about.title ?? (typeof schema.title === "string" ? schema.title : about.name);
        return visible(title.slice(0, 200)) + (about.isRequired ? " *" : "");
    }

    // -- what is wrong with a field or a group

    // Says at an element what is wrong there, until something else is entered.
    function complain(place, text) {
        const id = `${place.id}-error`;
        const line = element("span", {textContent: visible(text), dir: "auto"});
        if (place.hasAttribute("data-wrong")) {
            document.getElementById(id).append(line);
            return;
        }
        const told = element("p", {className: "mcp-error", id}, line);
        const usual = place.getAttribute("aria-describedby") ?? "";
        place.setAttribute("data-wrong", "");
        place.setAttribute("aria-describedby", `${id} ${usual}`.trim());
        if (place.tagName === "FIELDSET") {
            place.querySelector("legend").after(told);
        } else {
            place.after(told);
            place.setAttribute("aria-invalid", "true");
        }
        place.addEventListener("input", () => {
            told.remove();
            place.removeAttribute("data-wrong");
            place.removeAttribute("aria-invalid");
            place.setAttribute("aria-describedby", usual);
        }, {once: true});
    }

    function settle(place) {
        for (const wrong of place.querySelectorAll("[data-wrong]")) {
            wrong.dispatchEvent(new Event("input"));
        }
    }

    // A form is also read as far as it goes, to edit it in another way; nothing is wrong with it then.
    let isDraft = false;

    function refuse(field, text) {
        if (!isDraft) {
            complain(field, text);
        }
        throw Object.assign(new Error(text), {field});
    }

    // Reads all, so that everything that is wrong is said at once, and fails with the first of it.
    function readAll(reads) {
        const faults = [];
        const values = reads.map((read) => {
            try {
                return read();
            } catch (error) {
                if (!error.field) {
                    throw error;
                }
                faults.push(error);
                return undefined;
            }
        });
        if (faults.length && !isDraft) {
            throw faults[0];
        }
        return values;
    }

    const changed = (place) => place.dispatchEvent(new Event("input", {bubbles: true}));

    // The first thing in an element that takes the focus.
    const focusIn = (place) => place.querySelector(CONTROLS)?.focus();

    // -- single fields

    // Whether an integer as it was written is another one here, and so would be on the wire.
    const isRounded = (written) => /^[-+]?\d+$/.test(written) && !Number.isSafeInteger(Number(written));

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

    // A number, or a text where a number would not be the same: `9.50`, and 30 digits.
    function readDecimal(text) {
        const value = Number(text);
        return Number.isFinite(value) && String(value) === text ? value : text || undefined;
    }

    function choice(options, about, words) {
        const field = element("select");
        // Nothing is chosen for you, unless there is but one choice.
        const first = about.isPreset || options.length === 1 ? null : words.choose;
        const blank = about.isNeeded ? first : about.isRequired ? "null" : words.optional;
        if (blank) {
            field.append(new Option(`– ${blank} –`, ""));
        }
        options.forEach(([, title], at) => field.append(new Option(shown(title), String(at))));
        const indexOf = (value) => options.findIndex(([each]) => isSame(each, value));
        return {
            field,
            propose: (usual) => {
                field.options[0].text = `– ${blank}: ${shown(options[indexOf(usual)]?.[1] ?? usual)} –`;
            },
            write: (value) => {
                const at = indexOf(value);
                field.value = at >= 0 ? String(at) : field.options[0]?.value;
            },
            read: () => (field.value === "" ? undefined : options[Number(field.value)][0]),
        };
    }

    function number(schema, isInteger, words) {
        const step = schema.multipleOf ?? (isInteger ? 1 : "any");
        const field = element("input", {type: "number", step});
        field.min = schema.minimum ?? "";
        field.max = schema.maximum ?? "";
        return {field, read: () => readNumber(field, isInteger, words)};
    }

    // A date and a time, and the zone that they are in.
    function moment(words) {
        const field = element("input", {type: "datetime-local", step: "1"});
        const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
        const zone = element("select", {className: "mcp-zone", ariaLabel: words.zone},
            ...(own === "UTC" ? [] : [new Option(own, "own")]), new Option("UTC", "Z"), new Option(words.noZone, ""));
        const offset = () => {
            const minutes = -new Date(field.value).getTimezoneOffset();
            const parts = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
            return (minutes < 0 ? "-" : "+") + parts.map((each) => String(each).padStart(2, "0")).join(":");
        };
        return {
            field,
            more: [zone],
            read: () => (field.value === "" ? undefined
                : withSeconds(field.value) + (zone.value === "own" ? offset() : zone.value)),
            write: (text) => {
                const [, local, given = ""] = /^(.*?T[\d:]+(?:\.\d{1,3})?)\d*(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
                field.value = local ?? "";
                if (![...zone.options].some((each) => each.value === given)) {
                    zone.append(new Option(given, given));
                }
                zone.value = given;
            },
        };
    }

    const withSeconds = (text) => text + (/(^|T)\d\d:\d\d$/.test(text) ? ":00" : "");

    function text(schema, isNeeded) {
        const type = FORMATS[schema.format] ?? "text";
        const isLong = schema.maxLength > 200 && type === "text";
        const field = element(isLong ? "textarea" : "input", {dir: "auto"});
        if (!isLong) {
            field.type = type;
        }
        if (type === "time") {
            field.step = "1";
        } else if (schema.format === "decimal") {
            field.inputMode = "decimal";
        }
        const isDay = ["date", "time"].includes(type);
        const read = () => (type === "time" ? withSeconds(field.value) : field.value);
        return {
            field,
            // An empty text is a text.
            isFree: !isDay && !(schema.minLength > 0),
            isBlank: isDay,
            read: () => (field.value === "" && (!isNeeded || isDay) ? undefined : read()),
        };
    }

    function fieldOf(schema, about, words) {
        const choices = choicesOf(schema);
        const type = typeOf(schema);
        if (choices || type === "boolean") {
            return choice(choices ?? [[true, words.yes], [false, words.no]], about, words);
        }
        if (type === "integer" || type === "number") {
            return number(schema, type === "integer", words);
        }
        if (isDecimal(schema)) {
            const field = element("input", {inputMode: "decimal"});
            return {field, read: () => readDecimal(field.value.trim())};
        }
        if (type === "string") {
            return schema.format === "date-time" ? {...moment(words), isBlank: true} : text(schema, about.isNeeded);
        }
        const field = element("textarea", {rows: 4, spellcheck: false, dir: "ltr"});
        return {
            field,
            isJSON: true,
            read: () => readJSON(field, words),
            write: (value) => {
                field.value = JSON.stringify(value);
            },
        };
    }

    function leaf(schema, about, form) {
        const {words} = form;
        const found = fieldOf(schema, about, words);
        const {field, more = []} = found;
        const {propose} = found;
        const write = found.write ?? ((value) => {
            field.value = textOf(value);
        });
        const hasDefault = schema.default !== undefined && schema.default !== null;
        const usual = found.isBlank && hasDefault ? `${words.optional}: ${shown(schema.default)}` : "";
        const rules = isDecimal(schema) ? {...variantsOf(schema)[0], ...schema} : schema;
        const help = helpOf(rules, words, usual);
        field.id = `mcp-field-${++made}`;
        field.dataset.name = about.name;
        field.required = about.isNeeded && !found.isFree;
        const label = element("label", {htmlFor: field.id, dir: "auto",
            textContent: titleOf(schema, about) + (found.isJSON ? ` (${words.json})` : "")});
        const place = element("div", {className: "mcp-field"}, label, field, ...more);
        if (help.textContent) {
            help.id = `${field.id}-help`;
            field.setAttribute("aria-describedby", help.id);
            place.append(help);
        }
        if (hasDefault && about.isNeeded) {
            write(schema.default);
        } else if (hasDefault && propose) {
            propose(schema.default);
        } else if (hasDefault) {
            // What is used when nothing is given is seen where that would stand.
            field.placeholder = shown(found.isJSON ? JSON.stringify(schema.default) : schema.default);
        }
        if (form.suggest?.names.includes(about.name)) {
            place.append(suggestions(field, about.name, form.suggest.ask));
        }
        const read = () => {
            if (field.validity.badInput || field.validity.valueMissing) {
                refuse(field, field.validationMessage);
            }
            return found.read();
        };
        return {place, label, read, write, at: () => field};
    }

    // What the server proposes for a field, for what stands there.
    function suggestions(field, name, ask) {
        const list = element("datalist", {id: `${field.id}-list`});
        let asked = 0;
        const look = () => {
            clearTimeout(asked);
            asked = setTimeout(async () => {
                const value = field.value;
                const found = await ask(name, value);
                if (field.value === value) {
                    list.replaceChildren(...found.map((each) => new Option(visible(each), each)));
                }
            }, 200);
        };
        field.setAttribute("list", list.id);
        field.autocomplete = "off";
        field.addEventListener("input", look);
        field.addEventListener("focus", look);
        return list;
    }

    // -- groups, lists and alternatives

    function frame(schema, about, form) {
        const {words} = form;
        const usual = about.isNeeded || schema.default === undefined || schema.default === null
            ? "" : `${words.optional}: ${shown(schema.default)}`;
        const help = helpOf(schema, words, usual);
        const label = element("legend", {textContent: titleOf(schema, about), dir: "auto"});
        const place = element("fieldset", {id: `mcp-field-${++made}`, className: "mcp-group"}, label);
        place.dataset.name = about.name;
        if (help.textContent) {
            help.id = `${place.id}-help`;
            place.setAttribute("aria-describedby", help.id);
            place.append(help);
        }
        return {place, label};
    }

    function button(title, act) {
        const found = element("button", {type: "button", className: "button", textContent: title});
        found.addEventListener("click", act);
        return found;
    }

    function properties(place, schema, form, depth) {
        const required = new Set([schema.required ?? []].flat());
        const parts = new Map();
        for (const [name, raw] of Object.entries(schema.properties ?? {})) {
            const part = make(raw, {name, isRequired: required.has(name)}, form, depth);
            parts.set(name, part);
            place.append(part.place);
        }
        return {
            read() {
                const found = {};
                const names = [...parts.keys()];
                const values = readAll([...parts.values()].map((part) => part.read));
                for (const [at, value] of values.entries()) {
                    const name = names[at];
                    if (value !== undefined) {
                        Object.defineProperty(found, name, {value, enumerable: true});
                    }
                }
                return found;
            },
            write(values) {
                for (const [name, part] of parts) {
                    if (isObject(values) && Object.hasOwn(values, name)) {
                        part.write(values[name]);
                    }
                }
            },
            at: ([name, ...rest]) => parts.get(name)?.at(rest),
        };
    }

    // Fields that belong together; where they may be left out they are added first.
    function group(schema, about, form, depth) {
        const {words} = form;
        const {place, label} = frame(schema, about, form);
        const body = element("div");
        let inner = null;
        const set = (isThere) => {
            body.replaceChildren();
            inner = isThere ? properties(body, schema, form, depth + 1) : null;
            toggle.textContent = isThere ? words.remove : words.add;
            toggle.ariaLabel = `${toggle.textContent} ${label.textContent}`;
        };
        const toggle = button("", () => {
            set(inner === null);
            changed(place);
            focusIn(inner ? body : place);
        });
        set(about.isNeeded);
        place.append(body, ...(about.isNeeded ? [] : [toggle]));
        return {
            place,
            label,
            read: () => inner?.read(),
            write: (value) => {
                set(about.isNeeded || isObject(value));
                inner?.write(value);
            },
            at: (path) => inner?.at(path) ?? place,
        };
    }

    // Entries that are added and removed; a list that may be left out can be given without any.
    function list(schema, about, form, depth) {
        const {words} = form;
        const {place, label} = frame(schema, about, form);
        const title = label.textContent.replace(/ \*$/, "");
        const rows = element("ol", {className: "mcp-rows"});
        const items = [];
        const count = () => items.forEach(({part, remove}, at) => {
            part.label.textContent = `${title} ${at + 1}`;
            remove.ariaLabel = `${words.remove} ${title} ${at + 1}`;
        });
        const drop = (item) => {
            items.splice(items.indexOf(item), 1);
            item.row.remove();
            count();
        };
        const set = (isGiven) => {
            [...items].forEach(drop);
            rows.hidden = !isGiven;
            leaver.hidden = about.isNeeded || !isGiven;
        };
        const append = () => {
            const item = {part: make(schema.items, {name: about.name, title, isRequired: true}, form, depth + 1)};
            item.remove = button(words.remove, () => {
                drop(item);
                changed(place);
                adder.focus();
            });
            item.row = element("li", {}, item.part.place, item.remove);
            items.push(item);
            rows.append(item.row);
            count();
            return item;
        };
        const adder = button(words.add, () => {
            if (rows.hidden) {
                set(true);
            }
            focusIn(append().row);
            changed(place);
        });
        const leaver = button(words.leave, () => {
            set(false);
            changed(place);
            adder.focus();
        });
        adder.ariaLabel = `${words.add} ${title}`;
        leaver.ariaLabel = `${words.leave} ${title}`;
        place.append(rows, adder, leaver);
        set(about.isNeeded);
        for (let left = about.isNeeded ? Math.min(schema.minItems ?? 0, MAX_FIRST_ITEMS) : 0; left > 0; left--) {
            append();
        }
        return {
            place,
            label,
            read: () => (rows.hidden ? undefined : readAll(items.map(({part}) => part.read))),
            write: (values) => {
                set(true);
                for (const value of [values].flat()) {
                    append().part.write(value);
                }
            },
            at: ([at, ...rest]) => items[at]?.part.at(rest) ?? place,
        };
    }

    // Several of a few choices.
    function checks(schema, about, form) {
        const {place, label} = frame(schema, about, form);
        const options = choicesOf(resolve(schema.items, form.root));
        const boxes = options.map(() => element("input", {type: "checkbox"}));
        place.append(...options.map(([, title], at) => (
            element("label", {className: "mcp-check", dir: "auto"}, boxes[at], ` ${shown(title)}`))));
        return {
            place,
            label,
            read: () => {
                const found = options.filter((_option, at) => boxes[at].checked).map(([value]) => value);
                return found.length || about.isNeeded ? found : undefined;
            },
            write: (values) => options.forEach(([value], at) => {
                boxes[at].checked = [values].flat().some((each) => isSame(each, value));
            }),
            at: () => place,
        };
    }

    // One of several forms, which is chosen first.
    function alternatives(schema, about, form, depth) {
        const {place, label} = frame(schema, about, form);
        const options = variantsOf(schema).map((raw) => {
            const found = resolve(raw, form.root);
            return [raw, String(found.title ?? found["x-name"] ?? typeOf(found) ?? form.words.json)];
        });
        const {field} = choice(options, {...about, isPreset: true}, form.words);
        const body = element("div");
        let inner = null;
        const choose = (at) => {
            field.value = at;
            const [raw, title] = options[at] ?? [];
            inner = raw ? make(raw, {name: about.name, title, isRequired: true}, form, depth + 1) : null;
            body.replaceChildren(...(inner ? [inner.place] : []));
        };
        field.ariaLabel = label.textContent;
        field.addEventListener("change", () => choose(field.value));
        place.append(field, body);
        choose(field.value);
        return {
            place,
            label,
            read: () => inner?.read(),
            write: (value) => {
                const at = options.findIndex(([raw]) => fits(raw, value, form.root));
                choose(at >= 0 ? String(at) : field.options[0].value);
                inner?.write(value);
            },
            at: (path) => (path.length ? inner?.at(path) : null) ?? place,
        };
    }

    function kindOf(schema, root, depth) {
        const type = typeOf(schema);
        if (depth > MAX_DEPTH || choicesOf(schema) || isDecimal(schema)) {
            return leaf;
        }
        if (type === "object" && isObject(schema.properties)) {
            return group;
        }
        if (type === "array" && isObject(schema.items) && !schema.prefixItems) {
            return choicesOf(resolve(schema.items, root)) ? checks : list;
        }
        return type === undefined && variantsOf(schema).length > 1 ? alternatives : leaf;
    }

    // `about`: the `name`, whether it `isRequired`, and the `title` if it is not the schema's.
    function make(raw, about, form, depth) {
        const schema = resolve(raw, form.root);
        // What has to be there and may be null is null when it is left empty.
        const isNull = about.isRequired && isNullable(raw, form.root);
        const kind = kindOf(schema, form.root, depth);
        const part = kind(schema, {...about, isNeeded: about.isRequired && !isNull}, form, depth);
        return {
            ...part,
            read: isNull ? () => part.read() ?? null : part.read,
            write: (value) => (value === null ? undefined : part.write(value)),
        };
    }

    // `values`: what stands in the fields at first. `suggest`: the `names` of the fields that the server proposes
    // values for, and how to `ask` for those. Returns `read` for the value, `draft` for what there is of it, and
    // `report`, which says at their fields what is wrong with pairs of JSON Pointer and text, and returns the first
    // field there, or null.
    function build(place, schema, words, {values = {}, suggest} = {}) {
        const form = {root: schema ?? {}, words, suggest};
        const top = properties(place, form.root, form, 0);
        top.write(values);
        return {
            read: () => {
                settle(place);
                return top.read();
            },
            // What there is of the value, whether that is right or not.
            draft: () => {
                isDraft = true;
                try {
                    return top.read();
                } finally {
                    isDraft = false;
                }
            },
            report: (problems) => {
                for (const [pointer, text] of problems) {
                    const path = pointer.split("/").slice(1);
                    const where = top.at(path.map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~")));
                    if (where) {
                        complain(where, text);
                    }
                }
                return place.querySelector("[aria-invalid]") ?? place.querySelector(`[data-wrong] :is(${CONTROLS})`);
            },
        };
    }

    window.mcpForms = {build, readJSON, refuse, button};
})();
