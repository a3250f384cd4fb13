import { type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { text } from '../../../settings/values.ts';
import { endpointLike, poolId, requirePoolId, textsBy } from '../../cloud-disk/config.ts';
import { requireLabel } from './labels.ts';

/** Options that only pools of persistent disks have. */
export interface GcePoolOptions {
  /** The label of the pool's disks in the project; empty only if there is a mistake. */
  readonly poolId: string;
  /** undefined: that of the credentials, or of the machine. */
  readonly project: string | undefined;
  /** For volumes whose claim says nothing of zones. */
  readonly zone: string | undefined;
  /** For disks and snapshots, beside the driver's. */
  readonly diskLabels: Readonly<Record<string, string>>;
  /** undefined: Google's own. */
  readonly endpoint: URL | undefined;
}

const diskLabels = textsBy('label', (key, label) => {
  const mistake = requireLabel(key, label);
  if (mistake !== undefined) throw new WrongValue(mistake, [key]);
});

function project(value: unknown): string {
  if (typeof value === 'string' && /^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$/.test(value)) return value;
  throw new WrongValue(`must be the id of a project, such as my-project-123, not ${shown(value)}`);
}

const endpoint = endpointLike('https://compute-holdfast.p.googleapis.com');

const readers = { poolId, project, zone: text, diskLabels, endpoint };

export const gcePoolKeys: readonly string[] = Object.keys(readers);

export function readGcePool(section: SectionReader): GcePoolOptions {
  const own = section.readAll(readers);
  requirePoolId(section, 'project');
  const { diskLabels: labels = {}, endpoint: url, poolId: id = '', project: name, zone } = own;
  return { poolId: id, project: name, zone, diskLabels: labels, endpoint: url };
}
