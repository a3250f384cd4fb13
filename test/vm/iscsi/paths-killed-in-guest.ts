import { leavesNothing } from './killed.ts';

leavesNothing(
  ['127.0.0.1:3260', '10.99.0.1:3260'],
  [
    ['iscsi/note', 2],
    ['iscsi/login', 1],
    ['iscsi/note', 3],
    ['iscsi/scan', 1],
    ['iscsi/map', 1],
    ['iscsi/note', 4],
    ['iscsi/login', 2],
    ['iscsi/note', 5],
    ['iscsi/scan', 2],
    ['iscsi/note', 6],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['iscsi/unmap', 1],
    ['iscsi/logout', 1],
    ['iscsi/logout', 2],
    ['volume-note/remove', 1],
  ],
);
