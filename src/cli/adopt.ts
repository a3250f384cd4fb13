import { AdminClient } from '../admin/client.ts';
import type { Config } from '../config/config.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { parseQuantity } from '../volume/size.ts';
import { exportCommand } from './export.ts';
import { volumeIdOf } from './look/volume-id.ts';
import { exitCodes, type Output, toJson } from './output/output.ts';
import { printable } from './output/text.ts';
import type { ReclaimPolicy } from './persistent-volume.ts';

export interface AdoptOptions {
  readonly path: string;
  readonly pool: string;
  /** In the form that was typed: NAMESPACE/NAME. */
  readonly claim: string;
  readonly name: string | undefined;
  /** In the form that was typed: 10Gi. */
  readonly size: string | undefined;
  readonly reclaimPolicy: ReclaimPolicy;
  readonly storageClass: string | undefined;
  readonly json: boolean;
}

/** `holdfast adopt PATH`: what lies there becomes a volume, and its PersistentVolume is printed. */
export async function adoptCommand(config: Config, output: Output, options: AdoptOptions): Promise<number> {
  const { json, name, pool, reclaimPolicy, storageClass } = options;
  const [namespace, claim, ...more] = options.claim.split('/');
  if (namespace === undefined || claim === undefined || more.length > 0) {
    output.problem('INVALID_ARGUMENT', `'${options.claim}' is no claim: write NAMESPACE/NAME`);
    return exitCodes.usage;
  }
  const sizeBytes = options.size === undefined ? undefined : sizeOf(options.size);
  if (typeof sizeBytes === 'string') {
    output.problem('INVALID_ARGUMENT', sizeBytes);
    return exitCodes.usage;
  }
  const { id, path } = await new AdminClient(config.adminSocketPath).adopt({
    // Without the slash that a shell's completion adds.
    path: options.path.length > 1 ? options.path.replace(/\/$/, '') : options.path,
    ...{ pool, namespace, claim },
    ...(name !== undefined && { name }),
    ...(sizeBytes !== undefined && { sizeBytes: sizeBytes.toString() }),
  });
  if (!json) output.line(`# ${printable(path)} is volume ${id} of pool ${pool} now. Undo it: holdfast release ${id}`);
  return exportCommand(config, output, { json, wanted: id, reclaimPolicy, storageClass });
}

/** `holdfast release VOLUME`: the volume is what it was before it was adopted, and where it was. */
export async function releaseCommand(
  config: Config,
  output: Output,
  { wanted, json, to }: { wanted: string; json: boolean; to: string | undefined },
): Promise<number> {
  const id = await volumeIdOf(config, wanted);
  const released = await new AdminClient(config.adminSocketPath).release(id, to);
  if (json) output.line(toJson<'release'>(released));
  else output.line(`${released.id} is no volume any more: its data lies at ${printable(released.path)}.`);
  return exitCodes.ok;
}

/** @returns bytes, or the reason why the text is no size */
function sizeOf(text: string): bigint | string {
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof InvalidArgument) return error.message;
    throw error;
  }
}
