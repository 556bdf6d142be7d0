// Reads JSON Schemas: what a schema refers to, its type, its choices and the forms that a value may have.
"use strict";
(() => {
    const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
    const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

    function follow(schema, root) {
        for (let hops = 0; schema && typeof schema.$ref === "string" && hops < 20; hops++) {
            const parts = schema.$ref.startsWith("#/") ? schema.$ref.slice(2).split("/") : [];
            const found = parts.reduce(
                (place, part) => place?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
            const name = parts.at(-1);
            schema = isObject(found) ? {"x-name": name, ...found, ...schema, $ref: found.$ref} : {};
        }
        return isObject(schema) ? schema : {};
    }

    const alternativesOf = (schema) => [schema.anyOf ?? schema.oneOf ?? []].flat();

    function resolve(raw, root) {
        const schema = follow(raw, root);
        const others = alternativesOf(schema).filter((each) => each?.type !== "null");
        const only = others.length === 1 ? others : schema.allOf?.length === 1 ? schema.allOf : null;
        if (only) {
            const {anyOf, oneOf, allOf, ...rest} = schema;
            const inner = resolve(only[0], root);
            return {...inner, ...rest, type: inner.type ?? rest.type};
        }
        return schema;
    }

    function isNullable(raw, root) {
        const schema = follow(raw, root);
        return [schema, ...alternativesOf(schema)].some((each) => [each?.type].flat().includes("null"));
    }

    const typesOf = (schema) => [schema.type ?? []].flat().filter((each) => each !== "null");
    const typeOf = (schema) => (typesOf(schema).length === 1 ? typesOf(schema)[0] : undefined);

    // What can be chosen from: pairs of value and title, or null.
    function choicesOf(schema) {
        if ("const" in schema) {
            return [[schema.const, schema.const]];
        }
        if (Array.isArray(schema.enum)) {
            return schema.enum.map((value, at) => [value, schema.enumNames?.[at] ?? value]);
        }
        const options = alternativesOf(schema);
        if (options.length && options.every((each) => each && "const" in each)) {
            return options.map((each) => [each.const, each.title ?? each.const]);
        }
        return null;
    }

    // The forms that a value may have, if there are several.
    function variantsOf(schema) {
        const types = typesOf(schema);
        return types.length > 1
            ? types.map((type) => ({...schema, type}))
            : alternativesOf(schema).filter((each) => each?.type !== "null");
    }

    function fits(raw, value, root) {
        const schema = resolve(raw, root);
        const choices = choicesOf(schema);
        if (choices) {
            return choices.some(([each]) => isSame(each, value));
        }
        const type = typeOf(schema);
        const found = Array.isArray(value) ? "array" : typeof value;
        if (type && (type === "integer" ? !Number.isInteger(value) : type !== found)) {
            return false;
        }
        return found !== "object" || Object.entries(schema.properties ?? {}).every(
            ([name, part]) => !("const" in part) || isSame(part.const, value?.[name]));
    }

    // As `Decimal` has it: a number or a text.
    function isDecimal(schema) {
        const types = variantsOf(schema).map((each) => typeOf(each ?? {})).sort();
        return isSame(types, ["number", "string"]);
    }

    window.mcpSchemas = {choicesOf, fits, isDecimal, isNullable, isObject, isSame, resolve, typeOf, variantsOf};
})();
