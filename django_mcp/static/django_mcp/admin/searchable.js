// Gives selects with many choices a search, by the script of Django's fields with autocompletion.
"use strict";
django.jQuery(($) => {
    for (const select of document.querySelectorAll("select.mcp-searchable")) {
        const label = select.labels[0];
        $(select).select2({theme: "admin-autocomplete", width: "100%"});
        const box = select.nextElementSibling.querySelector("[role=combobox]");
        // It names the choice alone.
        box.setAttribute("aria-labelledby", `${label.id} ${box.getAttribute("aria-labelledby")}`);
        label.addEventListener("click", () => box.focus());
        $(select).on("select2:close", () => box.removeAttribute("aria-controls"));
        $(select).on("select2:open", () => {
            box.setAttribute("aria-controls", box.getAttribute("aria-owns"));
            const search = document.querySelector(".select2-container--open .select2-search__field");
            search.setAttribute("aria-label", label.textContent.trim());
            search.focus();
        });
    }
});
