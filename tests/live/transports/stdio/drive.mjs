// Drive `mcp_stdio` of the example shop with the official TypeScript client; the arguments are its
// mode, an order's number and the command. Prints what it saw as one JSON object.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, number, command, ...args] = process.argv.slice(2);
const versionNegotiation = { mode: mode === "legacy" || mode === "auto" ? mode : { pin: mode } };
const client = new Client(
  { name: "tests", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation },
);
const seen = {};
client.setRequestHandler("elicitation/create", (request) => {
  seen.asked = request.params.message;
  return { action: "accept", content: { paper: "stars", note: "Yours" } };
});
const updated = new Promise((resolve) => {
  client.setNotificationHandler("notifications/resources/updated", (each) => resolve(each.params.uri));
});

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
const text = (result) => result.content[0].text;
seen.tools = (await client.listTools()).tools.map((each) => each.name);
seen.found = text(await call("find_orders", { query: number }));
seen.wrapped = text(await call("gift_wrap", { number }));

seen.progress = 0;
const exported = await call("export_orders", {}, { onprogress: () => (seen.progress += 1) });
seen.rows = exported.structuredContent.rows;

const leaving = new AbortController();
const left = await call("export_orders", {}, { signal: leaving.signal, onprogress: () => leaving.abort() })
  .then(() => "answered", () => "cancelled");
seen.left = left;

let subscription;
const uri = "product://mug/stock";
if (mode === "legacy") await client.subscribeResource({ uri });
else subscription = await client.listen({ resourceSubscriptions: [uri] });
await call("place_order", { lines: [{ sku: "mug", quantity: 1 }] });
seen.updated = await updated;
await subscription?.close();
seen.last = text(await call("convert_price", { euros: 1, currency: "EUR" }));
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
