/* The part of a page that talks to its host, by MCP Apps 2026-01-26. `window.mcp` is its interface. */
(() => {
  "use strict";
  const VERSION = "2026-01-26", HTML = "django_mcp/html";
  const waiting = new Map(), listeners = {}, root = document.documentElement;
  let last = 0, size = "";

  const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params = {}) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    post({ id: last, method, params });
  });

  const mcp = window.mcp = {
    input: null, result: null, context: {}, host: {},
    on(event, listener) { (listeners[event] ||= []).push(listener); return mcp; },
    call: (name, args = {}) => request("tools/call", { name, arguments: args }),
    read: (uri) => request("resources/read", { uri }),
    open: (url) => request("ui/open-link", { url }),
    say: (text) => request("ui/message", { role: "user", content: [{ type: "text", text }] }),
    tell: (text, structuredContent) => request("ui/update-model-context", {
      content: [{ type: "text", text }], ...(structuredContent ? { structuredContent } : {}),
    }),
    display: (mode) => request("ui/request-display-mode", { mode }),
    log: (level, data) => notify("notifications/message", { level, data }),
    swap, show,
  };
  const emit = (event, value) => {
    for (const listener of listeners[event] || []) listener(value);
    root.dispatchEvent(new CustomEvent(`mcp:${event}`, { detail: value, bubbles: true }));
  };

  /* Theme, variables, language and insets of the host. */
  function follow(context) {
    Object.assign(mcp.context, context);
    const { theme, styles, locale, safeAreaInsets: insets, displayMode } = context;
    if (theme) root.dataset.theme = theme;
    if (displayMode) root.dataset.display = displayMode;
    for (const [name, value] of Object.entries(styles?.variables || {}))
      if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
    if (styles?.css?.fonts && !document.getElementById("mcp-fonts")) {
      const fonts = document.createElement("style");
      fonts.id = "mcp-fonts";
      fonts.textContent = styles.css.fonts;
      document.head.append(fonts);
    }
    if (locale) root.dataset.locale = locale;
    if (insets) for (const side of ["top", "right", "bottom", "left"])
      root.style.setProperty(`--mcp-inset-${side}`, `${Number(insets[side]) || 0}px`);
  }

  /* HTML that the server rendered and escaped; scripts in it do not run. */
  function swap(target, html) {
    for (const element of typeof target === "string" ? document.querySelectorAll(target) : [target]) {
      element.innerHTML = html;
      element.dispatchEvent(new CustomEvent("mcp:swapped", { bubbles: true }));
    }
  }
  const first = (target) => (typeof target === "string" ? document.querySelector(target) : target);
  const find = (value, path) => path.split(".").reduce((each, name) => each?.[name], value);

  /* Shows a result: texts by `data-mcp-text`, and the part that the server rendered. */
  function show(result, target = "[data-mcp-result]") {
    const data = result?.structuredContent, html = result?._meta?.[HTML];
    if (typeof html === "string") swap(target, html);
    for (const element of document.querySelectorAll("[data-mcp-text]")) {
      const value = find(data, element.dataset.mcpText);
      if (value !== undefined) element.textContent = value === null ? "" : String(value);
    }
  }
  const textOf = (result) =>
    (result?.content || []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
  function say(text, isError) {
    for (const element of document.querySelectorAll("[data-mcp-status]")) {
      element.textContent = text;
      element.dataset.state = isError ? "error" : text ? "done" : "";
    }
    for (const element of document.querySelectorAll("[data-mcp-loading]")) element.hidden = true;
  }

  const received = {
    "ui/notifications/tool-input": ({ arguments: given }) => emit("input", mcp.input = given || {}),
    "ui/notifications/tool-input-partial": ({ arguments: given }) => emit("partial", given || {}),
    "ui/notifications/tool-result": (result) => {
      mcp.result = result;
      say(result.isError ? textOf(result) : "", Boolean(result.isError));
      if (!result.isError) show(result);
      emit("result", result);
    },
    "ui/notifications/tool-cancelled": (params) => { say(root.dataset.cancelled || "", true); emit("cancelled", params); },
    "ui/notifications/host-context-changed": (context) => { follow(context); emit("context", mcp.context); },
  };
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    const { id, method, params = {} } = data;
    if (method === undefined) {
      const asked = waiting.get(id);
      waiting.delete(id);
      if (data.error) asked?.reject(Object.assign(new Error(data.error.message), data.error));
      else asked?.resolve(data.result);
    } else if (id === undefined) received[method]?.(params);
    else if (method === "ui/resource-teardown") { emit("teardown", params); post({ id, result: {} }); }
    else if (method === "ping") post({ id, result: {} });
    else post({ id, error: { code: -32601, message: "Method not found" } });
  });

  /* `data-mcp-call` calls a tool, and `data-mcp-swap` says where its part of the page goes. */
  async function act(element, isAsked = true) {
    if (element.getAttribute("aria-busy") === "true") return;
    const { mcpCall: name, mcpArgs: args = "{}" } = element.dataset;
    const question = element.closest("[data-mcp-question]");
    const target = element.dataset.mcpSwap || question?.parentElement || partOf(element);
    const turn = (turns.get(target) || 0) + 1;
    turns.set(target, turn);
    element.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => say(root.dataset.waiting || "", false), 15000);
    try {
      const result = await mcp.call(name, withInputs(element, JSON.parse(args)));
      if (turn !== turns.get(target)) return; // another part was asked for since
      say(result.isError ? textOf(result) : "", Boolean(result.isError));
      if (!result.isError) {
        const last = document.activeElement;
        show(result, target);
        if (question) answered(target, textOf(result));
        else focusAfter(last, isAsked && first(target));
      }
      emit("called", { name, result });
    } catch (error) {
      say(error.message, true);
    } finally {
      clearTimeout(slow);
      element.removeAttribute("aria-busy");
    }
  }

  /* A question with its answer: the model learns it, and the focus follows, whose button is gone. */
  function answered(target, text) {
    first(target).querySelector("[data-mcp-focus]")?.focus();
    mcp.tell(text).catch(() => {});
  }
  /* `data-mcp-decline` answers a question with no: nothing is called. */
  function decline(question) {
    if (!question || question.querySelector("[aria-busy=true]")) return;
    const told = document.createElement("p");
    told.textContent = question.dataset.mcpDeclined;
    question.querySelector(".mcp-actions").replaceWith(told);
    say("", false);
    answered(question, `${question.querySelector("[data-mcp-focus]").textContent}: ${told.textContent}`);
  }

  /* The values of the inputs that `data-mcp-with` selects are arguments too; Enter in one of them calls. */
  const turns = new Map();
  function withInputs(element, args) {
    if (element.dataset.mcpWith) for (const input of document.querySelectorAll(element.dataset.mcpWith))
      if (input.value.trim()) args[input.name] = input.dataset.mcpReads === "json" ? READ.json(input) : input.value.trim();
    return args;
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches("input")) return;
    for (const element of document.querySelectorAll("[data-mcp-with]"))
      if (event.target.matches(element.dataset.mcpWith)) { event.preventDefault(); act(element); }
  });
  /* Who uses a keyboard goes on at the same element of a new part, or at its beginning. */
  function focusAfter(last, part) {
    const same = last?.isConnected || !last?.id ? null : document.getElementById(last.id);
    (same || part && part.querySelector("[data-mcp-focus]"))?.focus();
  }
  const partOf = (element) => element.closest("[data-mcp-part]") ? `#${element.closest("[data-mcp-part]").id}` : "[data-mcp-result]";
  /* `data-mcp-after` names tools after whose calls the element calls its own, as what it shows is another by then. */
  mcp.on("called", ({ name: called, result }) => {
    for (const element of result.isError ? [] : document.querySelectorAll("[data-mcp-after]"))
      if (element.dataset.mcpAfter.split(" ").includes(called)) act(element, false);
  });
  document.addEventListener("click", (event) => {
    const { mcpClear: emptied } = event.target.closest("[data-mcp-clear]")?.dataset || {};
    if (emptied) { swap(emptied, ""); focusAfter(null, document.querySelector("[data-mcp-result]")); }
    const element = event.target.closest("[data-mcp-call]"), link = event.target.closest("a[href]");
    if (element) { event.preventDefault(); act(element); }
    else if (event.target.closest("[data-mcp-decline]")) decline(event.target.closest("[data-mcp-question]"));
    else if (link && !link.getAttribute("href").startsWith("#")) {
      /* A link of a row may be a script. */
      event.preventDefault();
      if (/^(https?|mailto):/.test(link.href)) mcp.open(link.href).catch(() => {});
    }
  });

  /* `data-mcp-form` calls a tool with what its inputs hold, by click and Enter: not all frames may submit forms. */
  const ERRORS = "django_mcp/errors", LATE_S = 20;
  const READ = {
    text: (input) => input.value,
    number: (input) => (Number.isSafeInteger(Number(input.value)) || input.value.includes(".") ? Number(input.value) : input.value),
    boolean: (input) => input.checked,
    json: (input) => JSON.parse(input.value),
    list: (input) => input.value.split(",").map((text) => text.trim()).filter(Boolean),
    items: (input) => [JSON.parse(input.value)],
  };
  const isChanged = (input) => input.type === "hidden" || input.value !== input.defaultValue && !input.options
    || input.checked !== input.defaultChecked || [...input.options || []].some((each) => each.selected !== each.defaultSelected);
  function readForm(form) {
    const values = {}, wrong = {}, inputs = [...form.querySelectorAll("[name]:enabled")];
    const changed = new Set(inputs.filter(isChanged).map((input) => input.name));
    for (const input of inputs) {
      const { name, type } = input, { mcpReads: reads = "text", mcpEmpty: empty = "" } = input.dataset;
      if (form.dataset.mcpChanged !== undefined && !changed.has(name)) continue;
      if (input.validity.badInput) wrong[name] = [input.validationMessage];
      else if (input.multiple && input.options) values[name] = [...input.selectedOptions].map((each) => each.value);
      else if (type === "checkbox" && reads !== "boolean") {
        values[name] ||= [];
        if (input.checked) values[name].push(...(reads === "items" ? READ.items(input) : [input.value]));
      } else if (type === "radio") {
        if (input.checked) values[name] = READ[reads](input);
        else values[name] ??= "";
      } else if (input.value === "" && empty === "null") values[name] = null;
      else if (input.value === "" && (empty === "omit" || reads === "json")) continue;
      else if (input.value === "" && reads === "number") values[name] = null;
      else {
        try { values[name] = READ[reads](input); } catch { wrong[name] = [form.dataset.mcpBadJson || "JSON"]; }
      }
    }
    return { values, wrong };
  }
  const fieldOf = (form, name) => form.querySelector(`[data-mcp-field="${CSS.escape(name)}"]`);
  function complain(form, errors) {
    for (const slot of form.querySelectorAll("[data-mcp-error], [data-mcp-errors]")) slot.replaceChildren();
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    const all = form.querySelector("[data-mcp-errors]"), rest = [];
    for (const [name, texts] of Object.entries(errors)) {
      const field = name ? fieldOf(form, name) : null, slot = field?.querySelector("[data-mcp-error]");
      if (!slot) { rest.push(...texts.map((text) => (name ? `${name}: ${text}` : text))); continue; }
      slot.append(...texts.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
      for (const input of field.querySelectorAll("[name]")) input.setAttribute("aria-invalid", "true");
    }
    if (all) all.append(...rest.map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    else if (rest.length) say(rest.join("\n"), true);
    if (Object.keys(errors).length) (rest.length && all || form.querySelector("[aria-invalid]"))?.focus();
  }
  async function send(form) {
    if (form.getAttribute("aria-busy") === "true") return;
    const { mcpForm: name, mcpInto: into, mcpArgs: args, mcpSwap: target = "[data-mcp-result]" } = form.dataset;
    const { values, wrong } = readForm(form), buttons = form.querySelectorAll("button");
    complain(form, wrong);
    if (Object.keys(wrong).length) return;
    const busy = (isBusy) => {
      form.setAttribute("aria-busy", String(isBusy));
      for (const button of buttons) button.disabled = isBusy;
    };
    busy(true);
    say(form.dataset.mcpSending || "", false);
    const late = setTimeout(() => say(form.dataset.mcpLate || "", true), (form.dataset.mcpLateS || LATE_S) * 1000);
    try {
      const given = args === undefined ? mcp.input || {} : JSON.parse(args);
      const result = await mcp.call(name, { ...given, ...(into ? { [into]: values } : values) });
      busy(false);
      say("", false);
      if (result.isError) return complain(form, result._meta?.[ERRORS] || { "": [textOf(result)] });
      const done = form.parentElement.querySelector("[data-mcp-done]");
      if (typeof result._meta?.[HTML] === "string") show(result, target);
      else say(textOf(result), false);
      if (done) { form.hidden = true; done.hidden = false; done.focus(); }
      if (mcp.host.capabilities?.updateModelContext) mcp.tell(`${name}: ${textOf(result)}`).catch(() => {});
      emit("called", { name, result });
    } catch (error) {
      busy(false);
      say("", false);
      complain(form, { "": [error.message] });
    } finally {
      clearTimeout(late);
    }
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mcp-form] :is([data-mcp-submit], [type=submit])");
    if (button) { event.preventDefault(); send(button.closest("[data-mcp-form]")); }
  });
  /* Who has the form shown again is in it then. */
  let isAgain = false;
  document.addEventListener("click", ({ target }) => { isAgain = Boolean(target.closest("[data-mcp-done] [data-mcp-call]")); });
  document.addEventListener("mcp:swapped", ({ target }) => {
    if (isAgain) target.querySelector("[data-mcp-form] [name]:not([type=hidden])")?.focus();
    isAgain = false;
  });
  document.addEventListener("keydown", (event) => {
    const form = event.target.closest("[data-mcp-form]");
    if (!form || event.key !== "Enter" || event.isComposing || !event.target.matches("input")) return;
    event.preventDefault();
    send(form);
  });

  const measure = () => {
    const height = Math.ceil(root.getBoundingClientRect().height), width = Math.ceil(root.scrollWidth);
    if (`${width}x${height}` === size) return;
    size = `${width}x${height}`;
    notify("ui/notifications/size-changed", { width, height });
  };
  const start = async () => {
    const { name = "django_mcp", version = "1" } = root.dataset;
    const answer = await request("ui/initialize", {
      protocolVersion: VERSION, appInfo: { name, version },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    });
    mcp.host = { info: answer.hostInfo, capabilities: answer.hostCapabilities || {} };
    follow(answer.hostContext || {});
    notify("ui/notifications/initialized");
    new ResizeObserver(measure).observe(root);
    measure();
    emit("ready", mcp);
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
  else start();
})();
