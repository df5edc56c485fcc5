// Package show turns what the API answers into what people and scripts read: rows with stable JSON names, words for
// enums, and text tables.
//
// It knows the messages of weir.v1 and how tokens, positions and keys are spelled. It must not know flags, connections
// or rules.
//
// What always holds: a field that was once printed under a name keeps the name and the meaning; epochs, operator ids and
// incarnations are strings GENERATION.SEQUENCE; positions are strings TS or TS/STAGE.
package show
