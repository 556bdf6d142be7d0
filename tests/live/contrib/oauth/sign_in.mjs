// A program with the official TypeScript client, which keeps its credentials in a file as editors do.
// Arguments: the endpoint, the file, and the mode of the client. Prints {"visit": URL} when a person
// has to sign in, and reads the address of the redirect; then answers each line with what it found.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const [url, file, mode] = process.argv.slice(2);
// Each process reads the file once, and then goes on with its own copy.
const kept = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
const keep = (name) => (value) => {
  kept[name] = value;
  writeFileSync(file, JSON.stringify(kept));
};
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const tell = (found) => console.log(JSON.stringify(found));
const redirectUrl = "http://127.0.0.1:33418/callback";
const authProvider = {
  redirectUrl,
  clientMetadata: {
    client_name: "The TypeScript client of the tests",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: keep("client"),
  tokens: () => kept.tokens,
  saveTokens: keep("tokens"),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: keep("verifier"),
  redirectToAuthorization: (place) => tell({ visit: place.href }),
};

const connect = async () => {
  const versionNegotiation = { mode: mode === "legacy" ? mode : { pin: mode } };
  const client = new Client({ name: "tests", version: "1" }, { versionNegotiation });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(new URL((await lines.next()).value).searchParams);
    return connect();
  }
  return client;
};

const client = await connect();
tell({ ready: true });
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  if (line.value === "expire") {
    // It does not look at the time, and refreshes after a refusal.
    tell({ text: "expired" });
    continue;
  }
  const result = await client.callTool({ name: "find_orders", arguments: {} });
  tell({ text: result.content[0].text });
}
process.exit(0);
