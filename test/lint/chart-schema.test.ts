import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { z } from 'zod';
import { fileKeys } from '../../src/config/file.ts';
import { parameterKeys } from '../../src/controller/volumes/parameters.ts';
import { keysOf, kindNames } from '../../src/pool/kinds.ts';

/** In `files.config` and `disks.config`, which the schema leaves to the driver, or in manifests alone. */
const notInChart = ['exec', 'aws-ebs', 'gce-pd'];

const withKeys = z.object({ properties: z.record(z.string(), z.unknown()) });
const schema = z
  .object({
    definitions: z.record(z.string(), z.unknown()),
    properties: z.object({
      storageClasses: z.object({ items: z.object({ properties: z.object({ parameters: withKeys }) }) }),
    }),
  })
  .parse(
    JSON.parse(
      readFileSync(new URL('../../deploy/charts/holdfast/values.schema.json', import.meta.url), 'utf8'),
    ) as unknown,
  );

test('the chart knows each key of the configuration that the driver knows, of each kind of pool that it installs', () => {
  const { properties } = withKeys.parse(schema.definitions['config']);
  assert.deepEqual(Object.keys(properties).sort(), fileKeys.filter((key) => key !== 'programs').sort());
  for (const kind of kindNames.filter((each) => !notInChart.includes(each))) {
    const pool = withKeys.parse(schema.definitions[`${kind}Pool`]);
    assert.deepEqual(Object.keys(pool.properties).sort(), [...keysOf(kind)].sort(), kind);
  }
});

test('the chart knows each parameter of classes that the driver knows', () => {
  const own = Object.keys(schema.properties.storageClasses.items.properties.parameters.properties);
  assert.deepEqual(own.filter((key) => !key.includes('/')).sort(), [...parameterKeys].sort());
});
