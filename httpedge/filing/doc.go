// Package filing handles uploads and downloads of files for the surfaces: names, type detection, limits, the order in which
// bytes and record are stored, and the headers of a download. The rules of conversations decide who may access a file.
package filing
