/* A host of MCP Apps for tests: the official bridge, and a log of what a page sent. */
window.log = [];
window.openPage = async (html, { result, input = {}, sandbox = "allow-scripts", context = {} }) => {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", sandbox);
  frame.title = "page";
  frame.width = 400;
  const capabilities = { serverTools: {}, openLinks: {}, logging: {}, updateModelContext: { text: {} } };
  const bridge = window.bridge = new ExtApps.AppBridge(
    null, { name: "tests", version: "1" }, capabilities, { hostContext: context },
  );
  const note = (name) => async (params) => { log.push([name, params]); return {}; };
  bridge.oncalltool = async (params) => { log.push(["call", params]); return window.callTool(params); };
  bridge.onopenlink = note("open");
  bridge.onmessage = note("message");
  bridge.onupdatemodelcontext = note("context");
  bridge.addEventListener("sizechange", note("size"));
  bridge.addEventListener("loggingmessage", note("logged"));
  bridge.addEventListener("initialized", async () => {
    log.push(["initialized", bridge.getAppVersion()]);
    await bridge.sendToolInput({ arguments: input });
    if (result) await bridge.sendToolResult(result);
  });
  document.body.append(frame);
  await bridge.connect(new ExtApps.PostMessageTransport(frame.contentWindow, frame.contentWindow));
  const policy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    + "img-src 'self' data:; media-src 'self' data:; connect-src 'none'";
  frame.srcdoc = html.replace(
    "<head>", `<head><meta http-equiv="Content-Security-Policy" content="${policy}">`,
  );
};
