import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { whyUnreadable } from '../config/config.ts';
import { exitCodes, type Output } from './output/output.ts';
import { toYaml } from './persistent-volume-yaml.ts';

/** A PersistentVolume that takes the place of another one, and what its user should know; or why there is none. */
export type Successor =
  | { readonly manifest: Readonly<Record<string, unknown>>; readonly warnings: readonly string[] }
  | { readonly mistake: string };

/**
 * The claim of a PersistentVolume that is exchanged. It is Lost meanwhile, and Kubernetes binds it again only to a PersistentVolume
 * that has its uid.
 */
export const oldClaimSchema = z.object({ namespace: z.string(), name: z.string(), uid: z.string().optional() });
export type OldClaim = z.infer<typeof oldClaimSchema>;

/** The part of a successor that reserves it for the claim. */
export function claimRefFor(claim: OldClaim | undefined): Readonly<Record<string, unknown>> {
  return claim === undefined ? {} : { claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim } };
}

/**
 * Prints the successors of PersistentVolumes in a manifest, and changes nothing.
 * @param file the path, or - for standard input
 * @param convert answers undefined for an object that is none of them
 */
export function convertManifest(
  output: Output,
  file: string,
  { convert, wanted }: { readonly convert: (manifest: unknown) => Successor | undefined; readonly wanted: string },
): number {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    output.problem('INVALID_ARGUMENT', whyUnreadable(file, error));
    return exitCodes.usage;
  }
  const found = manifestsIn(text);
  if (found === undefined) {
    output.problem('INVALID_ARGUMENT', `${file} is no YAML: write kubectl get pv -o yaml into it`);
    return exitCodes.usage;
  }
  let converted = 0;
  let isWhole = true;
  for (const manifest of found) {
    const successor = convert(manifest);
    if (successor === undefined) continue;
    if ('mistake' in successor) {
      output.problem('INVALID_ARGUMENT', successor.mistake);
      isWhole = false;
      continue;
    }
    for (const warning of successor.warnings) output.problem('WARNING', warning);
    output.line(`---\n${toYaml(successor.manifest).trimEnd()}`);
    converted++;
  }
  if (converted === 0) output.problem('NOT_FOUND', `${file} has no ${wanted}`);
  return converted > 0 && isWhole ? exitCodes.ok : exitCodes.failed;
}

/** The objects in a manifest: of several documents, and of lists. undefined: it is no YAML */
function manifestsIn(text: string): unknown[] | undefined {
  const documents = parseAllDocuments(text);
  if (!Array.isArray(documents) || documents.some(({ errors }) => errors.length > 0)) return undefined;
  return documents.flatMap((document) => {
    const content: unknown = document.toJS();
    const isList =
      typeof content === 'object' && content !== null && 'items' in content && Array.isArray(content.items);
    return isList ? content.items : [content];
  });
}
