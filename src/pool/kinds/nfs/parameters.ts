import type { NfsExport } from '../../../kernel/nfs/mount.ts';
import { parseText, WrongValue } from '../../../settings/section.ts';
import { host, pathInShare } from '../../../settings/shares.ts';
import { absolutePath, oneOf } from '../../../settings/values.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { type OnDelete, onDeletes } from './on-delete.ts';
import { mode } from './values.ts';

/** The parameters of classes, by the names that csi-driver-nfs has for them. */
export const nfsParameters = ['server', 'share', 'subDir', 'mountPermissions', 'onDelete'] as const;

export interface NfsParameters {
  /** The name under which people find the volume on the server: a path in the pool's directory for names. */
  readonly name: string | undefined;
  /** Undefined: as the pool has it. */
  readonly onDelete: OnDelete | undefined;
}

type Given = Readonly<Record<string, string>>;

/** The placeholders of csi-driver-nfs. The sidecar csi-provisioner gives the values (--extra-create-metadata). */
const placeholders: Readonly<Record<string, string>> = {
  'pvc.metadata.namespace': 'csi.storage.k8s.io/pvc/namespace',
  'pvc.metadata.name': 'csi.storage.k8s.io/pvc/name',
  'pv.metadata.name': 'csi.storage.k8s.io/pv/name',
};

/**
 * Reads the parameters of a class for a volume of a pool with this export.
 * @throws InvalidArgument that names the parameter, and says what to write
 */
export function readNfsParameters(given: Given, exported: NfsExport): NfsParameters {
  const read = <T>(key: (typeof nfsParameters)[number], parse: (text: string) => T) =>
    parseText(given[key], parse, (words) => new InvalidArgument(`Parameter ${key} ${words}.`));
  const server = read('server', host);
  if (server !== undefined && server !== exported.host) throw ofAnother('server', exported.host);
  const share = read('share', absolutePath);
  if (share !== undefined && share !== exported.share) throw ofAnother('share', exported.share);
  read('mountPermissions', mode);
  return {
    name: read('subDir', (text) => pathInShare(filledIn(text, given))),
    onDelete: read('onDelete', oneOf(onDeletes)),
  };
}

function ofAnother(key: string, own: string): InvalidArgument {
  return new InvalidArgument(
    `Parameter ${key} is not that of the pool, ${own}: leave it out, or name the pool that has it (pool).`,
  );
}

/** @throws WrongValue */
function filledIn(template: string, given: Given): string {
  return template.replaceAll(/\$\{([^{}]*)\}/g, (whole, name: string) => {
    const key = placeholders[name];
    const known = Object.keys(placeholders).map((each) => `\${${each}}`);
    if (key === undefined) throw new WrongValue(`has ${whole}; it can have ${known.join(', ')}`);
    const value = given[key];
    if (value === undefined) {
      throw new WrongValue(`has ${whole}, which is not known here: run csi-provisioner with --extra-create-metadata`);
    }
    // No value adds a step to the path.
    if (value === '' || value.includes('/'))
      throw new WrongValue(`has ${whole}, whose value is no name of a directory`);
    return value;
  });
}
