/*
 * What is said to LVM with each command, whatever the node's lvm.conf has.
 */

/**
 * LVs are never taken for physical volumes: what lies in one is its owner's. What is removed was wiped by us, as its class says:
 * LVM discards nothing once more, with the group locked meanwhile.
 */
const devices = 'devices{scan_lvs=0 issue_discards=0}';
/** Nobody would answer: LVM makes the nodes that it needs by itself. */
const withoutUdev = ['udev_sync=0', 'udev_rules=0'];
/** It is we who watch mirrors, and make thin pools larger: no dmeventd is started for that, in this container say. */
const unwatched = 'monitoring=0';
/** So from a threshold of somebody else's on nothing new is refused: what a thin pool may promise, we reckon ourselves. */
const withoutThreshold = 'thin_pool_autoextend_threshold=100';
/** In a thin pool that is full writes wait for a minute (the kernel's no_space_timeout), in which it may grow, and fail only then. */
const patient = 'error_when_full=0';

/** As reports are read here, whatever lvm.conf has for those who read them. */
const reporting = 'report{compact_output=0 compact_output_cols="" list_item_separator=","}';
/**
 * What LVM has to say beside a report comes on standard error. From 2.03.26 on it is rows of the report, if that is JSON, and
 * standard error is empty.
 */
const saying = 'log{report_command_log=0}';

/**
 * The group's text has the records of all volumes, and a volume's life is several changes of it: kept for a month each time, as
 * LVM does by itself, they fill a disk. The newest text is kept in any case (/etc/lvm/backup).
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
