import { leavesNothing } from './killed.ts';

leavesNothing(
  ['127.0.0.1:3260'],
  [
    ['volume-note/write', 1],
    ['iscsi/note', 1],
    ['iscsi/note', 2],
    ['iscsi/login', 1],
    ['iscsi/note', 3],
    ['iscsi/scan', 1],
    ['iscsi/note', 4],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['iscsi/logout', 1],
    ['volume-note/remove', 1],
  ],
);
