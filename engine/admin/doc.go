// Package admin answers the requests that look at or change the cluster rather
// than its records: Metadata and the describing, creating and altering of
// topics, partitions, configs and log directories. Error codes and the texts
// beside them are Kafka's, since tools show them.
//
// A handler takes a decoded kmsg request and returns the response of the same
// version. Handlers run off the loops, many at a time; they read the immutable
// image and the immutable configuration, and change things only through the
// small interfaces declared here, so that they are tested without a store.
package admin
