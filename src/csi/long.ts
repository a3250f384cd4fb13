/**
 * An int64 of a message (L12). The generated types call it Long, after the class that protobufjs uses where there is no
 * bigint.
 */
export type Long = bigint;
