// Package cast says what PostgreSQL does to values that no row change tells about: the constant that existing rows get in
// an added column, and the values of a column whose type changes.
//
// It knows how the upstream prints the values of its types, since that is how a replica holds them. It must not know how
// a sink stores them.
//
// What always holds: a value that is returned is the one that the upstream would print; where that is not certain,
// nothing is returned, and the caller has to refuse.
package cast
