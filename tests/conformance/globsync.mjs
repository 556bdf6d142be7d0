// The suite's bundle imports fs.globSync by name for a command that we never run. Node 20 has no such
// export and refuses to link the bundle, so there this file (node --import) puts a stand-in in its place.
// It serves twice: in the main thread it registers itself, in the loader's thread it is the hook.
import fs from 'node:fs';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

if (isMainThread && !fs.globSync) register(import.meta.url);

const source = `
  export * from 'node:fs';
  export { default } from 'node:fs';
  export function globSync() { throw new Error('fs.globSync needs Node 22 or newer'); }
`;
const standIn = 'data:text/javascript,' + encodeURIComponent(source);

export function resolve(specifier, context, nextResolve) {
  const isFs = specifier === 'fs' || specifier === 'node:fs';
  const fromSuite = context.parentURL?.includes('/node_modules/@modelcontextprotocol/conformance/');
  return isFs && fromSuite ? { url: standIn, shortCircuit: true } : nextResolve(specifier, context);
}
