// What the scripts of the pages share: making elements, and texts that hide nothing.
"use strict";
(() => {
    function element(name, properties = {}, ...children) {
        const made = Object.assign(document.createElement(name), properties);
        made.append(...children);
        return made;
    }

    // What cannot be seen is written as an escape, so that nothing hides or turns text around.
    const visible = (text) => text.replace(/[^\P{C}\n\t]|[\u2028\u2029]/gu,
        (char) => `\\u{${char.codePointAt(0).toString(16)}}`);

    window.mcpElements = {element, visible};
})();
