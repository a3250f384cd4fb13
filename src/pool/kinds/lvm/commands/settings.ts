/*
 * The settings that each command of LVM gets, whatever the node's lvm.conf has.
 */

/**
 * LVs are never taken for physical volumes: the content of one is its owner's. Removed ones were wiped by us, as their
 * class says: LVM discards nothing once more, with the group locked meanwhile.
 */
const devices = 'devices{scan_lvs=0 issue_discards=0}';
/** udev would not answer: LVM makes the nodes that it needs. */
const withoutUdev = ['udev_sync=0', 'udev_rules=0'];
/** The driver watches mirrors, and extends thin pools: no dmeventd is started for that, e.g. in this container. */
const unwatched = 'monitoring=0';
/** Otherwise LVM refuses new volumes from a foreign threshold on: the driver reckons itself what a thin pool may promise. */
const withoutThreshold = 'thin_pool_autoextend_threshold=100';
/** In a thin pool that is full writes wait for a minute (the kernel's no_space_timeout), in which it may grow, and fail only then. */
const patient = 'error_when_full=0';

/** The format of reports that is read here, whatever lvm.conf has for people. */
const reporting = 'report{compact_output=0 compact_output_cols="" list_item_separator=","}';
/**
 * Messages of LVM beside a report come on standard error. From 2.03.26 on they are rows of the report, if that is JSON, and
 * standard error is empty.
 */
const saying = 'log{report_command_log=0}';

/**
 * The group's text has the records of all volumes, and a volume's life is several changes of it: kept for a month each time, as
 * LVM does by default, they fill a disk. The newest text is kept in any case (/etc/lvm/backup).
 */
const withoutArchive = 'backup{archive=0}';
/** After which the group is on other disks: of these the text before is worth keeping. */
const archived: readonly string[] = ['vgcreate', 'vgextend'];

export interface LvmCircumstances {
  readonly lockDirectory?: string | undefined;
  readonly hasUdev: boolean;
  /** The pool's volumes lie in a thin pool that we look after. */
  readonly hasThinPool: boolean;
}

/** The text of `--config` for a command of LVM. */
export function configFor(command: string, { hasThinPool, hasUdev, lockDirectory }: LvmCircumstances): string {
  const locks = lockDirectory === undefined ? [] : [`global{locking_dir="${lockDirectory}"}`];
  const thin = hasThinPool ? [withoutThreshold, patient] : [];
  const activation = [unwatched, ...thin, ...(hasUdev ? [] : withoutUdev)].join(' ');
  const archive = archived.includes(command) ? [] : [withoutArchive];
  return [`activation{${activation}}`, devices, reporting, saying, ...archive, ...locks].join(' ');
}
