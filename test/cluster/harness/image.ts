import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { runToEnd } from './command.ts';

/** A container image of one layer. */
export interface ImagePlan {
  /** As pods name it. */
  readonly name: string;
  /** The directory that becomes its root filesystem. */
  readonly root: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly env?: readonly string[];
}

interface Blob {
  readonly digest: string;
  readonly size: number;
}

/** Writes an image as an OCI archive (https://github.com/opencontainers/image-spec, image-layout.md). */
export async function writeImage(plan: ImagePlan, archive: string): Promise<void> {
  const layout = mkdtempSync(join(tmpdir(), 'holdfast-image-'));
  try {
    const blobs = join(layout, 'blobs', 'sha256');
    mkdirSync(blobs, { recursive: true });
    const layer = await layerOf(plan.root, blobs);
    const config = writeBlob(blobs, {
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config: {
        Entrypoint: plan.entrypoint,
        Cmd: plan.command,
        Env: plan.env ?? ['PATH=/bin:/usr/bin:/sbin:/usr/sbin'],
      },
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
    });
    const manifest = writeBlob(blobs, {
      schemaVersion: 2,
      mediaType: mediaType('manifest.v1+json'),
      config: { mediaType: mediaType('config.v1+json'), ...config },
      layers: [{ mediaType: mediaType('layer.v1.tar'), ...layer }],
    });
    const annotations = { 'io.containerd.image.name': plan.name };
    const index = {
      schemaVersion: 2,
      manifests: [{ mediaType: mediaType('manifest.v1+json'), ...manifest, annotations }],
    };
    writeFileSync(join(layout, 'index.json'), JSON.stringify(index));
    writeFileSync(join(layout, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
    await runToEnd('tar', ['--create', '--file', archive, '--directory', layout, '.']);
  } finally {
    rmSync(layout, { recursive: true, force: true });
  }
}

function mediaType(suffix: string): string {
  return `application/vnd.oci.image.${suffix}`;
}

/** The directory as an uncompressed layer: it goes no further than this machine. */
async function layerOf(root: string, blobs: string): Promise<Blob> {
  const file = join(blobs, 'layer');
  await runToEnd('tar', [
    '--create',
    '--file',
    file,
    '--numeric-owner',
    '--owner=0',
    '--group=0',
    '--directory',
    root,
    '.',
  ]);
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  const hex = hash.digest('hex');
  renameSync(file, join(blobs, hex));
  return { digest: `sha256:${hex}`, size: statSync(join(blobs, hex)).size };
}

function writeBlob(blobs: string, value: unknown): Blob {
  const text = JSON.stringify(value);
  const hex = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(blobs, hex), text);
  return { digest: `sha256:${hex}`, size: Buffer.byteLength(text) };
}
