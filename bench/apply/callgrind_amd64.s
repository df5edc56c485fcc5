#include "textflag.h"

// The rotations sum to a full turn and the exchange is with itself: a processor does nothing, Valgrind sees a request.
//
// func clientRequest(args *[6]uint64) uint64
TEXT ·clientRequest(SB), NOSPLIT, $0-16
	MOVQ args+0(FP), AX
	MOVQ $0, DX
	ROLQ $3, DI
	ROLQ $13, DI
	ROLQ $61, DI
	ROLQ $51, DI
	XCHGQ BX, BX
	MOVQ DX, ret+8(FP)
	RET
