// Drive `mcp_stdio` with the official TypeScript client; the arguments are its mode and the command.
// Prints what it saw as one JSON object.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, command, ...args] = process.argv.slice(2);
const versionNegotiation = { mode: mode === "legacy" || mode === "auto" ? mode : { pin: mode } };
const client = new Client(
  { name: "tests", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation },
);
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { sure: true } }));
const updated = new Promise((resolve) => {
  client.setNotificationHandler("notifications/resources/updated", (each) => resolve(each.params.uri));
});

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
const text = (result) => result.content[0].text;
const seen = {};
seen.tools = (await client.listTools()).tools.map((each) => each.name);
seen.called = text(await call("aecho", { text: "hello" }));
seen.confirmed = text(await call("confirm"));
seen.progress = [];
// Paused: this client forgets what comes in one piece with the answer.
await call("count", { to: 3, pause_s: 0.2 }, { onprogress: (each) => seen.progress.push(each.progress) });

const leaving = new AbortController();
const left = call("wait_for_ever", {}, { signal: leaving.signal }).then(() => "answered", () => "cancelled");
await call("aecho", { text: "meanwhile" });
leaving.abort();
seen.left = await left;

let subscription;
if (mode === "legacy") await client.subscribeResource({ uri: "stock://a" });
else subscription = await client.listen({ resourceSubscriptions: ["stock://a"] });
await call("change", { uri: "stock://a" });
seen.updated = await updated;
await subscription?.close();
seen.last = text(await call("aecho", { text: "bye" }));
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
