import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { imageRepository } from '../../scripts/published.ts';
import { version } from '../../src/version.ts';
import { projectRoot } from '../image/image.ts';

const kustomization = z.strictObject({
  apiVersion: z.string(),
  kind: z.string(),
  resources: z.array(z.string()),
  patches: z.array(z.strictObject({ path: z.string() })).default([]),
});
const named = z.looseObject({ kind: z.string(), metadata: z.looseObject({ name: z.string() }) });
const object = z.record(z.string(), z.unknown());

/** Everything of `deploy` in one file, with the image of this release. */
export function installManifest(image: string): string {
  return documentsOf(join(projectRoot, 'deploy'))
    .join('---\n')
    .replaceAll(`image: ${imageRepository()}:${version}`, `image: ${image}`);
}

/** The objects of a directory for `kubectl apply -k`, each as YAML. */
function documentsOf(directory: string): string[] {
  const read = (name: string) => readFileSync(join(directory, name), 'utf8');
  const { patches, resources } = kustomization.parse(parse(read('kustomization.yaml')));
  const documents = resources.flatMap((name) =>
    name.endsWith('.yaml') ? read(name).split(/^---\n/m) : documentsOf(join(directory, name)),
  );
  return patches.reduce(
    (texts, { path }) => texts.map((text) => patched(text, read(path))),
    documents.map((text) => `${text.trim()}\n`),
  );
}

/** An object, after a patch that may be for another one. Comments of an object that is changed are lost. */
function patched(text: string, patch: string): string {
  const [own, other] = [text, patch].map((each) => named.parse(parse(each)));
  if (own?.kind !== other?.kind || own?.metadata.name !== other?.metadata.name) return text;
  return stringify(merged(parse(text), parse(patch)), { aliasDuplicateObjects: false, lineWidth: 0 });
}

/** As kustomize merges: maps by their keys, lists of objects by `name` or `mountPath`, new entries first. */
function merged(own: unknown, change: unknown): unknown {
  if (Array.isArray(own) && Array.isArray(change)) return mergedList(own, change);
  const [left, right] = [object.safeParse(own), object.safeParse(change)];
  if (!left.success || !right.success) return change;
  const keys = [...new Set([...Object.keys(left.data), ...Object.keys(right.data)])];
  return Object.fromEntries(
    keys.map((key) => [key, key in right.data ? merged(left.data[key], right.data[key]) : left.data[key]]),
  );
}

function mergedList(own: readonly unknown[], change: readonly unknown[]): unknown[] {
  const changes = new Map(change.map((entry) => [keyOf(entry), entry]));
  const kept = own
    .filter((entry) => !isDeletion(changes.get(keyOf(entry))))
    .map((entry) => (changes.has(keyOf(entry)) ? merged(entry, changes.get(keyOf(entry))) : entry));
  const known = new Set(own.map(keyOf));
  return [...change.filter((entry) => !known.has(keyOf(entry)) && !isDeletion(entry)), ...kept];
}

function keyOf(entry: unknown): unknown {
  const { mountPath, name } = object.parse(entry);
  return mountPath ?? name;
}

function isDeletion(entry: unknown): boolean {
  return object.safeParse(entry).data?.['$patch'] === 'delete';
}
