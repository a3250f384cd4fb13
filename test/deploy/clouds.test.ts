import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { ebsParameters } from '../../src/pool/kinds/aws-ebs/parameters.ts';
import { gceParameters } from '../../src/pool/kinds/gce-pd/parameters.ts';
import { readPool } from '../../src/pool/kinds.ts';
import { SectionReader } from '../../src/settings/section.ts';
import { objectsOf } from './objects.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const read = (name: string) => readFileSync(join(deploy, name), 'utf8');
const objectsIn = (name: string) => objectsOf(read(name));

const clouds = [
  { kind: 'aws-ebs', pool: 'ebs', className: 'holdfast-ebs', known: ebsParameters },
  { kind: 'gce-pd', pool: 'pd', className: 'holdfast-pd', known: gceParameters },
] as const;

for (const { className, kind, known, pool } of clouds) {
  describe(`deploy/${kind}`, () => {
    test('patches objects that deploy/disks has', () => {
      const { patches } = z
        .looseObject({ patches: z.array(z.strictObject({ path: z.string() })) })
        .parse(parse(read(`${kind}/kustomization.yaml`)));
      const files = ['access.yaml', 'config.yaml', 'daemon-set.yaml', 'home.yaml'];
      const there = files.flatMap((file) => [...objectsIn(`disks/${file}`).keys()]);
      const patched = patches.flatMap(({ path }) => [...objectsIn(`${kind}/${path}`).keys()]);
      assert.deepEqual(
        patched.filter((key) => !there.includes(key)),
        [],
      );
    });

    test('has a pool that the driver takes, once it has a name, and attach: required', () => {
      const { data } = z
        .looseObject({ data: z.record(z.string(), z.string()) })
        .parse(objectsIn(`${kind}/config.yaml`).get('ConfigMap holdfast-disks'));
      const { attach, pools } = z
        .strictObject({
          attach: z.literal('required'),
          pools: z.strictObject({ [pool]: z.looseObject({ kind: z.literal(kind) }) }),
        })
        .parse(parse(data['holdfast.yaml'] ?? ''));
      assert.equal(attach, 'required');
      const mistakes: unknown[] = [];
      const { kind: _kind, ...section } = pools[pool] ?? {};
      readPool(kind, pool, new SectionReader(section, [], mistakes as never));
      assert.deepEqual(mistakes, []);
    });

    test('has a class with parameters of the kind', () => {
      const { parameters, provisioner } = z
        .looseObject({ provisioner: z.string(), parameters: z.record(z.string(), z.string()) })
        .parse(objectsIn(`${kind}/classes.yaml`).get(`StorageClass ${className}`));
      assert.equal(provisioner, 'disks.holdfast.csi.dev');
      assert.deepEqual(
        Object.keys(parameters).filter((key) => !known.some((each) => each === key)),
        [],
      );
    });
  });
}
