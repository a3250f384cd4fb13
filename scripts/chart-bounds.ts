/*
 * node scripts/chart-bounds.ts: writes the bounds of the driver's configuration into the schema of the chart's values.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { smallestInlineBytes } from '../src/config/file.ts';
import { smallestFileBytes } from '../src/pool/kinds/image/config.ts';
import { metadataBounds } from '../src/pool/kinds/lvm/thin/config.ts';
import { sickAfterBounds, smallestReserveBytes, undeleteBounds } from '../src/pool/settings.ts';
import { largestBytes } from '../src/settings/values.ts';
import { parseDuration } from '../src/volume/duration.ts';
import { parseQuantity } from '../src/volume/size.ts';
import { numbersPattern } from './digits.ts';

const schemaFile = fileURLToPath(new URL('../deploy/charts/holdfast/values.schema.json', import.meta.url));
const schemaShape = z.looseObject({ definitions: z.record(z.string(), z.unknown()) });

/** Definitions of the schema that are bounds of the driver's. */
export const boundedDefinitions: Readonly<Record<string, unknown>> = {
  fileSize: size(smallestFileBytes),
  reserve: size(smallestReserveBytes),
  thinMetadata: size(metadataBounds.leastBytes, metadataBounds.mostBytes),
  inlineSize: size(smallestInlineBytes),
  sickAfter: { type: 'string', pattern: durationPattern(sickAfterBounds) },
  duration: { type: 'string', pattern: durationPattern(undeleteBounds) },
};

function size(leastBytes: bigint, mostBytes = largestBytes): object {
  const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'k', 'M', 'G', 'T', 'P'];
  const alternatives = units.flatMap((unit) => {
    const factor = parseQuantity(`1${unit}`);
    const [least, most] = [(leastBytes + factor - 1n) / factor, mostBytes / factor];
    return least > most ? [] : [`${numbersPattern(least, most)}${unit}`];
  });
  return {
    oneOf: [
      { type: 'string', pattern: `^(${alternatives.join('|')})$` },
      { type: 'integer', minimum: Number(leastBytes), maximum: Number(mostBytes) },
    ],
  };
}

interface Bounds {
  readonly minimumSeconds: number;
  readonly maximumSeconds: number;
}

function durationPattern({ minimumSeconds, maximumSeconds }: Bounds): string {
  const alternatives = ['s', 'm', 'h', 'd'].flatMap((unit) => {
    const factor = parseDuration(`1${unit}`);
    const [least, most] = [Math.ceil(minimumSeconds / factor), Math.floor(maximumSeconds / factor)];
    return least > most ? [] : [`${numbersPattern(BigInt(least), BigInt(most))}${unit}`];
  });
  return `^(${[...(minimumSeconds === 0 ? ['0'] : []), ...alternatives].join('|')})$`;
}

if (import.meta.main) {
  const schema = schemaShape.parse(JSON.parse(readFileSync(schemaFile, 'utf8')));
  Object.assign(schema.definitions, boundedDefinitions);
  writeFileSync(schemaFile, `${JSON.stringify(schema, null, 2)}\n`);
}
