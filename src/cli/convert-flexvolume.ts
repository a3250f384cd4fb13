import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { whyUnreadable } from '../config/config.ts';
import { type FlexPersistentVolume, persistentVolumeOfFlex, readFlexVolume } from './flex-persistent-volume.ts';
import { exitCodes, type Output } from './output/output.ts';
import { toYaml } from './persistent-volume-yaml.ts';

export interface ConvertOptions {
  /** The path, or - for standard input. */
  readonly file: string;
  /** The name of the program in the configuration; undefined: the second part of the name of the FlexVolume driver. */
  readonly program: string | undefined;
  /** The program presents a device. */
  readonly device: boolean;
}

/** `holdfast convert-flexvolume`: PersistentVolumes of kind `exec` for those with `flexVolume` in a manifest. */
export function convertFlexVolumeCommand(output: Output, { device, file, program }: ConvertOptions): number {
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
    const flex = readFlexVolume(manifest);
    if (flex === undefined) continue;
    if ('mistake' in flex) {
      output.problem('INVALID_ARGUMENT', flex.mistake);
      isWhole = false;
      continue;
    }
    for (const warning of warningsFor(flex)) output.problem('WARNING', `${flex.name}: ${warning}`);
    output.line(`---\n${toYaml(persistentVolumeOfFlex(flex, { program, device })).trimEnd()}`);
    converted++;
  }
  if (converted === 0) output.problem('NOT_FOUND', `${file} has no PersistentVolume with flexVolume`);
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

function warningsFor({ mountOptions, reclaimPolicy }: FlexPersistentVolume): string[] {
  return [
    ...(reclaimPolicy === 'Retain' ? [] : ['its reclaim policy becomes Retain: nothing deletes such a volume']),
    ...(mountOptions ? ['its mountOptions are left out: FlexVolume drivers have never had them'] : []),
  ];
}
