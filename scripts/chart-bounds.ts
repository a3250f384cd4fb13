/*
 * node scripts/chart-bounds.ts: writes the bounds of the driver's configuration for the templates of the chart.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { smallestInlineBytes } from '../src/config/file.ts';
import { smallestFileBytes } from '../src/pool/kinds/image/config.ts';
import { metadataBounds } from '../src/pool/kinds/lvm/thin/config.ts';
import { sickAfterBounds, smallestReserveBytes, undeleteBounds } from '../src/pool/settings.ts';
import { largestBytes } from '../src/settings/values.ts';
import { formatDuration } from '../src/volume/duration.ts';
import { exactQuantity } from '../src/volume/size.ts';

export const boundsFile = fileURLToPath(new URL('../deploy/charts/holdfast/files/bounds.json', import.meta.url));

/** The content of that file. */
export function chartBounds(): string {
  const bounds = {
    fileSize: size(smallestFileBytes),
    reserve: size(smallestReserveBytes),
    thinMetadata: size(metadataBounds.minBytes, metadataBounds.maxBytes),
    inlineSize: size(smallestInlineBytes),
    sickAfter: duration(sickAfterBounds),
    undelete: duration(undeleteBounds),
  };
  return `${JSON.stringify(bounds, null, 2)}\n`;
}

function size(leastBytes: bigint, mostBytes = largestBytes): object {
  return {
    minimum: exactQuantity(leastBytes),
    minimumBytes: `${leastBytes}`,
    maximum: exactQuantity(mostBytes),
    maximumBytes: `${mostBytes}`,
  };
}

interface Bounds {
  readonly minimumSeconds: number;
  readonly maximumSeconds: number;
}

function duration({ maximumSeconds, minimumSeconds }: Bounds): object {
  return {
    minimum: minimumSeconds === 0 ? '0' : formatDuration(minimumSeconds),
    minimumSeconds,
    maximum: formatDuration(maximumSeconds),
    maximumSeconds,
  };
}

if (import.meta.main) writeFileSync(boundsFile, chartBounds());
