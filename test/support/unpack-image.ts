import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { runToEnd } from '../cluster/harness/command.ts';

const described = z.object({ digest: z.string() });
const index = z.object({ manifests: z.tuple([described]) });
const forArchitecture = z.object({ digest: z.string(), platform: z.object({ architecture: z.string() }) });
const images = z.object({ manifests: z.array(forArchitecture) });
const manifest = z.object({ config: described, layers: z.array(described) });
const imageConfig = z.object({
  config: z.object({
    Entrypoint: z.array(z.string()),
    Cmd: z.array(z.string()),
    Labels: z.record(z.string(), z.string()),
  }),
});

export interface UnpackedImage {
  /** The directory that is a container's root. */
  readonly root: string;
  readonly config: z.infer<typeof imageConfig>['config'];
}

/** Unpacks an OCI archive into a new directory: that of one architecture, where it has several. */
export async function unpackImage(archive: string, root: string, architecture?: string): Promise<UnpackedImage> {
  const blobs = `${root}.oci`;
  for (const directory of [blobs, root]) mkdirSync(directory);
  await runToEnd('tar', ['-xf', archive, '-C', blobs]);
  const json = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
  const blob = (digest: string) => join(blobs, 'blobs', digest.replace(':', '/'));
  const [{ digest: first }] = index.parse(json(join(blobs, 'index.json'))).manifests;
  const parts = manifest.parse(json(blob(architecture === undefined ? first : ofArchitecture(json(blob(first))))));
  for (const { digest } of parts.layers) await runToEnd('tar', ['-xzf', blob(digest), '-C', root]);
  return { root, config: imageConfig.parse(json(blob(parts.config.digest))).config };

  function ofArchitecture(all: unknown): string {
    const own = images.parse(all).manifests.find(({ platform }) => platform.architecture === architecture);
    if (own === undefined) throw new Error(`no image for ${architecture}`);
    return own.digest;
  }
}
