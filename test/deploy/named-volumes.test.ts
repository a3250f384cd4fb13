import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { nodeKindsWith } from '../../src/pool/kinds.ts';
import { kindOfContext } from '../../src/pool/volume-context.ts';
import { parseFilesystemType } from '../../src/volume/filesystem.ts';
import { exampleDirectory, exampleFiles } from './examples.ts';

/* PersistentVolumes that documents and examples name are ones that a node reads. */

const docs = fileURLToPath(new URL('../../docs', import.meta.url));
const persistentVolume = z.looseObject({
  kind: z.literal('PersistentVolume'),
  spec: z.looseObject({
    csi: z.looseObject({
      driver: z.string(),
      fsType: z.string().optional(),
      volumeAttributes: z.record(z.string(), z.string()),
    }),
  }),
});

function volumesIn(text: string) {
  return parseAllDocuments(text)
    .map((document) => persistentVolume.safeParse(document.toJS()))
    .flatMap(({ data }) => (data === undefined ? [] : [data.spec.csi]));
}

const blocks = (page: string) =>
  [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = '']) => text).join('---\n');

describe('PersistentVolumes that name their volume', () => {
  const pages = ['gluster', 'iscsi', 'nvme-tcp'].map((kind) => ({
    place: `docs/${kind}.md`,
    kind,
    volumes: volumesIn(blocks(readFileSync(join(docs, `${kind}.md`), 'utf8'))),
  }));
  const examples = exampleFiles
    .map((name) => ({
      place: name,
      kind: name,
      volumes: volumesIn(readFileSync(join(exampleDirectory, name), 'utf8')),
    }))
    .filter(({ volumes }) => volumes.length > 0);

  test('are in a page and an example of each kind', () => {
    for (const { place, volumes } of pages) assert.equal(volumes.length, 1, place);
    for (const { kind } of pages)
      assert.ok(
        examples.some(({ place }) => place.startsWith(kind)),
        kind,
      );
  });

  for (const { place, volumes } of [...pages, ...examples]) {
    test(`${place}: a node reads them`, () => {
      for (const { fsType, volumeAttributes } of volumes) {
        const { context, kind } = kindOfContext(volumeAttributes, nodeKindsWith(new Map()));
        kind.read(context, { access: 'mount', fsType: fsType === undefined ? undefined : parseFilesystemType(fsType) });
      }
    });
  }
});
