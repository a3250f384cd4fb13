import type { IscsiLun } from '../../../kernel/block/iscsi.ts';
import { type MultipathMap, multipathMapOf, multipathMapOver } from '../../../kernel/block/multipath.ts';
import type { NetworkDevice } from '../../network-disk/target.ts';
import type { IscsiNote } from './connections.ts';
import { multipathName } from './wwid.ts';

/*
 * A unit over several paths. multipathd of the node makes the map, and this driver uses it: the map is the device then, and
 * its paths are in use by it alone.
 */

type Path = Pick<IscsiLun, 'name'>;

/** The maps over some paths, each once. */
export function mapsOver(paths: readonly Path[], mapOver = multipathMapOver): MultipathMap[] {
  const maps = paths.flatMap(({ name }) => mapOver(name) ?? []);
  return maps.filter((map, index) => maps.findIndex(({ name }) => name === map.name) === index);
}

/** The devices to be used for the paths of one unit: the map over them, if there is one. */
export function devicesFor(luns: readonly IscsiLun[], mapOver = multipathMapOver): readonly NetworkDevice[] {
  const maps = mapsOver(luns, mapOver);
  // A path beside the map is about to join it.
  return maps.length > 0 ? maps : luns;
}

/** The devices that other programs may have in use: the paths of a map are in use by that alone. */
export function devicesAbove(luns: readonly IscsiLun[], mapOver = multipathMapOver): readonly NetworkDevice[] {
  return [...mapsOver(luns, mapOver), ...luns.filter(({ name }) => mapOver(name) === undefined)];
}

/** A path of a map that is not among the given ones; undefined: none. */
export function foreignPathOf({ paths = [] }: Pick<NetworkDevice, 'paths'>, own: readonly Path[]): string | undefined {
  return paths.find((path) => !own.some(({ name }) => name === path.name))?.name;
}

/** Answers if a device is a path of one of the maps. */
export function hasPath(maps: readonly Pick<MultipathMap, 'paths'>[], { name }: Path): boolean {
  return maps.some(({ paths }) => paths.some((path) => path.name === name));
}

/** The maps over some devices of this driver that may go with them: one with a path of another program is that program's. */
export function ownMaps(luns: readonly Path[], mapOver = multipathMapOver): MultipathMap[] {
  return mapsOver(luns, mapOver).filter((map) => foreignPathOf(map, luns) === undefined);
}

/** Maps of units in the note that have lost all paths: a program has them open, or multipathd has not removed them yet. */
export function mapsLeft(identities: IscsiNote['identities'], handle?: string, mapOf = multipathMapOf): MultipathMap[] {
  return Object.entries(identities ?? {})
    .filter(([user]) => handle === undefined || user === handle)
    .flatMap(([, seen]) => multipathName(seen.slice(seen.indexOf(' ') + 1)) ?? [])
    .flatMap((wwid) => mapOf(wwid) ?? [])
    .filter(({ paths }) => paths.length === 0);
}
