import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';
import { ebsParameters } from '../../src/pool/kinds/aws-ebs/parameters.ts';
import { readPool } from '../../src/pool/kinds.ts';
import { SectionReader } from '../../src/settings/section.ts';
import { objectsOf } from './objects.ts';

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url));
const read = (name: string) => readFileSync(join(deploy, name), 'utf8');
const objectsIn = (name: string) => objectsOf(read(name));

describe('deploy/aws-ebs', () => {
  test('patches objects that deploy/disks has', () => {
    const { patches } = z
      .looseObject({ patches: z.array(z.strictObject({ path: z.string() })) })
      .parse(parse(read('aws-ebs/kustomization.yaml')));
    const files = ['access.yaml', 'config.yaml', 'daemon-set.yaml', 'home.yaml'];
    const there = files.flatMap((file) => [...objectsIn(`disks/${file}`).keys()]);
    const patched = patches.flatMap(({ path }) => [...objectsIn(`aws-ebs/${path}`).keys()]);
    assert.deepEqual(
      patched.filter((key) => !there.includes(key)),
      [],
    );
  });

  test('has a pool that the driver takes, once it has a name, and attach: required', () => {
    const { data } = z
      .looseObject({ data: z.record(z.string(), z.string()) })
      .parse(objectsIn('aws-ebs/config.yaml').get('ConfigMap holdfast-disks'));
    const { attach, pools } = z
      .strictObject({
        attach: z.literal('required'),
        pools: z.strictObject({ ebs: z.record(z.string(), z.unknown()) }),
      })
      .parse(parse(data['holdfast.yaml'] ?? ''));
    assert.equal(attach, 'required');
    const mistakes: unknown[] = [];
    const { kind, ...section } = pools.ebs;
    assert.equal(kind, 'aws-ebs');
    readPool('aws-ebs', 'ebs', new SectionReader(section, [], mistakes as never));
    assert.deepEqual(mistakes, []);
  });

  test('has a class with parameters of the kind', () => {
    const { parameters, provisioner } = z
      .looseObject({ provisioner: z.string(), parameters: z.record(z.string(), z.string()) })
      .parse(objectsIn('aws-ebs/classes.yaml').get('StorageClass holdfast-ebs'));
    assert.equal(provisioner, 'disks.holdfast.csi.dev');
    assert.deepEqual(
      Object.keys(parameters).filter((key) => !ebsParameters.some((known) => known === key)),
      [],
    );
  });
});
