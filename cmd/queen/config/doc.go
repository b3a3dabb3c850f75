// Package config holds the settings of a node: one struct, one table with the name, default and allowed values of every
// variable (cluster 1.2 to 1.13), and one Validate with every rule that joins two of them (cluster 1.1).
//
// Promises:
//
//  1. Load reads what it is given and nothing else: the environment, the flags and the facts about the host are arguments.
//     It changes nothing on disk.
//  2. A value that does not parse or lies outside its range is reported, never clamped and never replaced by the default.
//  3. No secret leaves the package in text: settings, boot lines and error texts show it masked.
//
// The package does not open files or sockets named by a setting; whoever uses them does, and reports.
package config
